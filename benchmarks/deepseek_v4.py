"""A tiny DeepSeek-V4 against transformers on the same weights: decode steps along the context, and prefill.

    python benchmarks/deepseek_v4.py

Both run in this process without HTTP, float32 and a float32 cache, each at its best number of threads; a pair is a run
of each over the same tokens. The checkpoint is made here (`isotherm models make-tiny`). Beside the ratios: what a step
takes under a maximum of 1M tokens against one of 4,096, with the stock indexer too, and how a step grows to 64k.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import torch
from transformers import DeepseekV4ForCausalLM

from isotherm.base.backend import unwatched
from isotherm.cache.latent_pool import LATENT_BLOCK
from isotherm.engine import latent_parts
from isotherm.engine.latent_runner import LatentRunner
from isotherm.engine.machine import use_threads
from isotherm.engine.options import EngineOptions
from isotherm.engine.plan import Segment
from isotherm.engine.sequence import Sequence
from isotherm.kernels.cpu import choose
from isotherm.model.checkpoint import open_checkpoint
from isotherm.model.deepseek_v4.config import DeepseekV4Config
from isotherm.model.deepseek_v4.tiny import write_tiny
from lab import arguments
from lab.rows import Row, Side, ratio_row, write
from lab.servers import say

CONTEXTS = (300, 4096, 16_384)
CPU = torch.device("cpu")
SHORT, LONG = 4096, 65_536
PREFILL = 4096
CHUNK = 512
STEPS = 16


class Ours:
    """The network over its pool, driven as the engine drives it."""

    def __init__(self, folder: Path, max_model_len: int = LONG + 256, kernels: str = "auto") -> None:
        checkpoint = open_checkpoint(str(folder))
        assert isinstance(checkpoint.config, DeepseekV4Config)
        options = EngineOptions(
            str(folder), dtype="float32", kv_dtype="float32", kernels=kernels, max_num_seqs=1, kv_memory=256 << 20
        )
        parts = latent_parts.assemble(checkpoint, checkpoint.config, options, max_model_len, CPU, unwatched)
        assert isinstance(parts.runner, LatentRunner)
        self._runner = parts.runner
        self._sequence = Sequence(0, [])

    def prefill(self, tokens: list[int]) -> float:
        blocks = list(range(-(-(len(tokens) + 4 * STEPS) // LATENT_BLOCK)))
        self._sequence = Sequence(0, list(tokens), blocks=blocks, slot=0)
        began = time.perf_counter()
        for start in range(0, len(tokens), CHUNK):
            length = min(CHUNK, len(tokens) - start)
            last = start + length == len(tokens)
            self._runner.run([Segment(self._sequence, start, length, decode=False, ends_context=last)])
        return time.perf_counter() - began

    def step(self, token: int) -> float:
        self._sequence.tokens.append(token)
        began = time.perf_counter()
        self._runner.run([Segment(self._sequence, len(self._sequence.tokens) - 1, 1, decode=True, ends_context=True)])
        return time.perf_counter() - began


class Theirs:
    """transformers' own, with its cache."""

    def __init__(self, folder: Path) -> None:
        self._model = DeepseekV4ForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        self._model.eval()
        self._cache: Any = None

    def prefill(self, tokens: list[int]) -> float:
        self._cache = None
        return sum(self._run(tokens[start : start + CHUNK]) for start in range(0, len(tokens), CHUNK))

    def step(self, token: int) -> float:
        return self._run([token])

    @torch.inference_mode()
    def _run(self, tokens: list[int]) -> float:
        began = time.perf_counter()
        out = self._model(torch.tensor([tokens]), past_key_values=self._cache, use_cache=True, logits_to_keep=1)
        self._cache = out.past_key_values
        return time.perf_counter() - began


@contextmanager
def checkpoint(context: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        write_tiny(Path(folder), changes={"max_position_embeddings": context})
        yield Path(folder)


def best_threads(engine: Ours | Theirs, tokens: list[int]) -> tuple[int, int]:
    """1 or 2, whichever makes this engine's prefill shorter, and its steps."""
    fills, steps = {}, {}
    for threads in (1, 2):
        use_threads(threads)
        engine.prefill(tokens)
        fills[threads] = engine.prefill(tokens)
        steps[threads] = median(engine.step(7) for _ in range(STEPS))
    return min(fills, key=fills.__getitem__), min(steps, key=steps.__getitem__)


def main() -> int:
    args = arguments.parser(__doc__).parse_args()
    pairs, contexts = (1, CONTEXTS[:1]) if args.quick else (args.pairs, CONTEXTS)
    random = torch.Generator().manual_seed(0)
    rows: list[Row] = []
    with checkpoint(1 << 20) as folder:
        engines = {"Isotherm": Ours(folder), "transformers": Theirs(folder)}
        text = torch.randint(2, 500, (max(contexts),), generator=random).tolist()
        best = {name: best_threads(engine, text[: 2 * CHUNK]) for name, engine in engines.items()}
        filling = {name: fill for name, (fill, _) in best.items()}
        threads = {name: step for name, (_, step) in best.items()}
        for order, context in enumerate(contexts):
            found: dict[str, list[float]] = {name: [] for name in engines}
            fill: dict[str, list[float]] = {name: [] for name in engines}
            for pair in range(pairs):
                for name, engine in engines.items():
                    use_threads(filling[name])
                    fill[name].append(context / engine.prefill(text[:context]))
                    use_threads(threads[name])
                    found[name].append(1 / median(engine.step(7) for _ in range(STEPS)))
                say(f"{context}, pair {pair + 1}: " + ", ".join(f"{n} {v[-1]:.1f} steps/s" for n, v in found.items()))
            sides = [Side(name, found[name], "steps/s", f"{threads[name]} threads") for name in engines]
            rows.append(ratio_row(f"DeepSeek-V4 tiny: decode at {context:,} tokens", *sides, 2.0, 40 + order))
            if context == PREFILL:
                sides = [Side(name, fill[name], "tokens/s", f"{filling[name]} threads") for name in engines]
                rows.append(ratio_row(f"DeepSeek-V4 tiny: prefill of {PREFILL:,} tokens", *sides, 1.5, 45))
    use_threads(threads["Isotherm"])
    rows += [*_maximum(pairs, text[:512]), *_growth(pairs, random)]
    return write("deepseek_v4", rows, quick=args.quick, out=args.out)


def _maximum(pairs: int, text: list[int]) -> Iterator[Row]:
    """A decode step at 512 tokens with a maximum of 1M over one of 4,096; and over itself with the stock indexer."""
    with checkpoint(1 << 20) as wide, checkpoint(4096) as narrow:
        ours, short, stock = Ours(wide, 1 << 20), Ours(narrow, 4096), Ours(wide, 1 << 20, "stock-index")
        ratios = [_steps_over(pairs, text, *each) for each in ((ours, short), (stock, ours))]
    what = "DeepSeek-V4 tiny: decode step at 512 tokens"
    yield Row(f"{what}, maximum 1,048,576 over maximum 4,096", ratios[0], "x", at_most=1.05, order=46)
    yield Row(f"{what}, stock indexer over all of 1,048,576 against the real length", ratios[1], "x", order=47)


def _steps_over(pairs: int, text: list[int], one: Ours, other: Ours) -> list[float]:
    """Steps of one engine over those of another, by turns: which of them finds the caches warm changes."""
    ratios = []
    for _ in range(pairs):
        times: dict[Ours, list[float]] = {one: [], other: []}
        for engine in times:
            engine.prefill(text)
        for step in range(2 * STEPS):
            for engine in (one, other) if step % 2 else (other, one):
                times[engine].append(engine.step(7))
        ratios.append(median(times[one]) / median(times[other]))
    return ratios


def _growth(pairs: int, random: torch.Generator) -> Iterator[Row]:
    """A decode step at 64k over one at 4k, and over what the indexer alone would make of it if the rest stood still."""
    text = torch.randint(2, 500, (LONG,), generator=random).tolist()
    with checkpoint(1 << 20) as folder, Clock() as clock:
        engine = Ours(folder)
        grown, against = [], []
        for _ in range(pairs):
            engine.prefill(text[:SHORT])
            step, share = clock.steps(engine)
            engine.prefill(text)
            later, _ = clock.steps(engine)
            predicted = step * (1 - share) + step * share * LONG / SHORT
            say(
                f"a step of {step * 1e3:.2f} ms at {SHORT:,} tokens, {share:.0%} of it the indexer, makes "
                f"{predicted * 1e3:.2f} ms at {LONG:,}; measured {later * 1e3:.2f} ms"
            )
            grown.append(later / step)
            against.append(later / predicted)
    what = f"DeepSeek-V4 tiny: decode step at {LONG:,} tokens"
    yield Row(f"{what} over one at {SHORT:,}", grown, "x", order=48)
    yield Row(f"{what} over what the indexer's share at {SHORT:,} predicts", against, "x", at_most=1.0, order=49)


class Clock:
    """Times the choice of rows inside of steps of engines that are made while it is there."""

    def __init__(self) -> None:
        self._spent = 0.0
        self._choose = choose.choose

    def __enter__(self) -> Clock:
        def timed(*arguments: Any) -> torch.Tensor:
            began = time.perf_counter()
            chosen = self._choose(*arguments)
            self._spent += time.perf_counter() - began
            return chosen

        choose.choose = timed
        return self

    def __exit__(self, *_: object) -> None:
        choose.choose = self._choose

    def steps(self, engine: Ours) -> tuple[float, float]:
        """The median step's seconds, and the share of all steps' time that choosing took."""
        self._spent = 0.0
        times = [engine.step(7) for _ in range(2 * STEPS)]
        return median(times), self._spent / sum(times)


if __name__ == "__main__":
    sys.exit(main())
