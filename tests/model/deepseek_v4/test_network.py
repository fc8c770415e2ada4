"""The network against transformers' own, in float32, fed whole and in pieces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from isotherm.model.deepseek_v4.network import DeepseekV4
from isotherm.model.deepseek_v4.read_config import read_config
from isotherm.model.deepseek_v4.tensors import by_release_names
from isotherm.model.deepseek_v4.tiny import write_tiny
from isotherm.model.deepseek_v4.weights import load_weights
from isotherm.model.huggingface import read_weights
from support.latent_memory import PlainMemory
from support.transformers_logits import transformers_logits

TOLERANCE = 5e-5
LENGTH = 620
TOKENS = torch.randint(2, 500, (LENGTH,), generator=torch.Generator().manual_seed(3))
SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {},
    "all rows": {"index_topk": 512},
    "wider": {"hidden_size": 192, "num_attention_heads": 8, "head_dim": 80, "index_topk": 16, "sliding_window": 32},
    "reference operations": {"hidden_size": 120},
}
"""The last one's rows fill no whole vectors: plain PyTorch computes it, as on any device without kernels."""


def load(folder: Path) -> DeepseekV4:
    raw = json.loads((folder / "config.json").read_text())
    config = read_config(raw, "config.json")
    tensors = by_release_names(read_weights(folder), config)
    return DeepseekV4(config, load_weights(config, tensors, torch.float32, torch.device("cpu")), torch.float32)


def feed(model: DeepseekV4, pieces: list[int], *, decode: bool = False) -> torch.Tensor:
    """Logits of all tokens, fed in pieces; with ``decode`` pieces of one token go the way of a decode step."""
    rows, start, memory = [], 0, PlainMemory(model.config, LENGTH)
    for length in pieces:
        part = TOKENS[start : start + length]
        batch = memory.step(part, start) if decode and length == 1 else memory.span(part, start)
        with torch.inference_mode():
            rows.append(model.forward(batch, memory.pool))
        start += length
    return torch.cat(rows)


@pytest.fixture(scope="module", params=SHAPES)
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DeepseekV4]:
    folder = tmp_path_factory.mktemp("network")
    write_tiny(folder, seed=1, changes=SHAPES[request.param])
    return folder, load(folder)


@pytest.fixture(scope="module")
def expected(network: tuple[Path, DeepseekV4]) -> torch.Tensor:
    return transformers_logits(network[0], TOKENS)


def test_logits_are_those_of_transformers(network: tuple[Path, DeepseekV4], expected: torch.Tensor) -> None:
    model = network[1]
    assert model.ops.name == ("reference" if model.config.hidden_size == 120 else "cpu-numba")
    got = feed(model, [LENGTH])
    assert (got - expected).abs().max() < TOLERANCE


@pytest.mark.parametrize("chunk", [3, 63, 127, 128, 129, 255, 256, 257])
def test_pieces_of_any_size_give_the_same(chunk: int, network: tuple[Path, DeepseekV4], expected: torch.Tensor) -> None:
    model = network[1]
    pieces = [chunk] * (LENGTH // chunk) + ([LENGTH % chunk] if LENGTH % chunk else [])
    assert (feed(model, pieces) - expected).abs().max() < TOLERANCE


def test_token_by_token_after_a_prompt(network: tuple[Path, DeepseekV4], expected: torch.Tensor) -> None:
    model = network[1]
    got = feed(model, [129, *[1] * 160], decode=True)
    assert (got - expected[:289]).abs().max() < TOLERANCE
