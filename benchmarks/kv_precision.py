"""What a DeepSeek-V4 cache in bfloat16 and in FP8 costs: in logits against a float32 cache, and in bytes.

    python benchmarks/kv_precision.py

Logits: the tiny checkpoint in float32 over the real pool, several texts fed in chunks as the engine feeds them; only
the cache's precision differs. Random weights magnify a difference (routing and selection flip), so this sets the
precisions against each other and says nothing about a trained model's answers.

Bytes: the tensors of a pool with the release's row sizes (512 with 64 rotated, 128 of the indexer, ratios 4 and 128).
A packed page is filled up to a multiple of 576 bytes: hardly anything of 64 rows, half as much again of two.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from isotherm.base.backend import unwatched
from isotherm.cache.latent_pool import LATENT_BLOCK, LatentPool, block_bytes
from isotherm.engine import latent_parts
from isotherm.engine.machine import use_threads
from isotherm.engine.options import EngineOptions
from isotherm.engine.plan import Segment
from isotherm.engine.sequence import Sequence
from isotherm.model.checkpoint import open_checkpoint
from isotherm.model.deepseek_v4.config import DeepseekV4Config
from isotherm.model.deepseek_v4.tiny import write_tiny
from lab import arguments
from lab.rows import Row, write
from lab.servers import say

TOKENS, CHUNK = 640, 512
PRECISIONS = ("bfloat16", "fp8_e4m3")
FLASH = {"head_dim": 512, "qk_rope_head_dim": 64, "index_head_dim": 128, "sliding_window": 128}
LAYERS = {"C4": (4, 21), "C128": (128, 20)}
"""Ratio, and how many such layers Flash has."""
RECORDS = {
    ("C4", "fp8_e4m3"): (584 + 132) / 4,
    ("C4", "bfloat16"): (1024 + 256) / 4,
    ("C128", "fp8_e4m3"): 584 / 128,
    ("C128", "bfloat16"): 1024 / 128,
}
"""Bytes a token of a layer, from the record alone."""


@dataclass(frozen=True, slots=True)
class Distance:
    """Of logits [T, V] to those over a float32 cache: mean and largest, and likeliest tokens that are equal in %."""

    mean: float
    largest: float
    agreement: float


def logits(folder: Path, kv_dtype: str, tokens: list[int]) -> Tensor:
    """float32 [T, V] of one sequence over a pool of this precision."""
    checkpoint = open_checkpoint(str(folder))
    assert isinstance(checkpoint.config, DeepseekV4Config)
    options = EngineOptions(str(folder), dtype="float32", kv_dtype=kv_dtype, max_num_seqs=1, kv_memory=16 << 20)
    runner = latent_parts.assemble(
        checkpoint, checkpoint.config, options, 2 * TOKENS, torch.device("cpu"), unwatched
    ).runner
    sequence = Sequence(0, tokens, blocks=list(range(-(-len(tokens) // LATENT_BLOCK))), slot=0)
    return torch.cat([
        runner.run([Segment(sequence, start, min(CHUNK, len(tokens) - start), False, False, all_logits=True)])
        for start in range(0, len(tokens), CHUNK)
    ])  # fmt: skip


def distance(got: Tensor, exact: Tensor) -> Distance:
    apart = (got - exact).abs()
    same = (got.argmax(-1) == exact.argmax(-1)).float().mean()
    return Distance(float(apart.mean()), float(apart.max()), 100 * float(same))


def compare(folder: Path, texts: list[list[int]]) -> dict[str, list[Distance]]:
    """A distance a text for every precision."""
    found: dict[str, list[Distance]] = {name: [] for name in PRECISIONS}
    for number, text in enumerate(texts):
        exact = logits(folder, "float32", text)
        for name, distances in found.items():
            distances.append(distance(logits(folder, name, text), exact))
        say(f"text {number + 1}: " + ", ".join(f"{name} {each[-1].mean:.3g} apart" for name, each in found.items()))
    return found


def bytes_per_token(folder: Path, ratio: int, kv_dtype: str) -> float:
    """Compressed bytes a token of one layer, from the sizes of a real pool's tensors.

    The pool is made twice, a few blocks apart: what grows with blocks is what tokens cost.
    """
    write_tiny(folder, changes={**FLASH, "num_hidden_layers": 1, "compress_ratios": [ratio, 0]})
    config = open_checkpoint(str(folder)).config
    assert isinstance(config, DeepseekV4Config)
    few, many = (pool_bytes(config, kv_dtype, blocks) for blocks in (2, 10))
    assert (many - few) / 8 == block_bytes(latent_parts.layouts(config, kv_dtype)[1]), "what the engine plans with"
    return (many - few) / 8 / LATENT_BLOCK


def pool_bytes(config: DeepseekV4Config, kv_dtype: str, blocks: int) -> int:
    """Bytes of all tensors that a pool of so many blocks holds."""
    window, compressors = latent_parts.layouts(config, kv_dtype)
    pool = LatentPool(config.num_layers, config.attention.window, window, compressors, blocks, 1, torch.device("cpu"))
    return sum(tensor.nbytes for tensor in pool.tensors())


def distance_rows(found: dict[str, list[Distance]]) -> list[Row]:
    rows = []
    for order, (name, distances) in enumerate(found.items()):
        what = f"DeepSeek-V4 tiny: {name} cache against float32, {TOKENS} tokens"
        means, agreements = [each.mean for each in distances], [each.agreement for each in distances]
        rows += [
            Row(f"{what}: mean logit distance", means, "", order=50 + 3 * order),
            Row(f"{what}: largest logit distance", [each.largest for each in distances], "", order=51 + 3 * order),
            Row(f"{what}: same likeliest token", agreements, "%", order=52 + 3 * order),
        ]
    return rows


def byte_rows() -> list[Row]:
    """Each kind of layer, then all of Flash's, by the bytes that their records alone would take."""
    rows, order = [], 56
    for name in PRECISIONS:
        taken, record = 0.0, 0.0
        for layer, (ratio, count) in LAYERS.items():
            with tempfile.TemporaryDirectory() as folder:
                each = bytes_per_token(Path(folder), ratio, name)
            rows.append(_byte_row(f"a {layer} layer", name, each, RECORDS[layer, name], order))
            taken, record, order = taken + count * each, record + count * RECORDS[layer, name], order + 1
        rows.append(_byte_row("all layers", name, taken, record, order))
        order += 1
    return rows


def _byte_row(what: str, name: str, taken: float, record: float, order: int) -> Row:
    return Row(
        f"DeepSeek-V4 Flash row sizes, {what} in {name}: bytes a token by {record:,.6g} of its records",
        [taken / record],
        "x",
        at_most=1.03,
        order=order,
        remarks={"bytes": taken, "record": record},
    )


def main() -> int:
    args = arguments.parser(__doc__).parse_args()
    use_threads(1)
    random = torch.Generator().manual_seed(0)
    count = 1 if args.quick else args.pairs
    texts = [torch.randint(2, 500, (TOKENS,), generator=random).tolist() for _ in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        write_tiny(Path(folder))
        found = compare(Path(folder), texts)
    return write("kv_precision", [*distance_rows(found), *byte_rows()], quick=args.quick, out=args.out)


if __name__ == "__main__":
    sys.exit(main())
