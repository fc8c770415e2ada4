"""The network over its real pool against transformers' own, in float32: whole, and in pieces of every awkward size.

Sizes lie around compression windows (4, 128) and blocks (256); `make test` takes one of each kind, `make test-long` all
of them for every shape.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from isotherm.model.deepseek_v4.tiny import write_tiny
from support.latent import Network, load, some_tokens
from support.transformers_logits import transformers_logits

TOLERANCE = 5e-5
TOKENS = some_tokens(620, seed=3)
SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {},
    "all rows": {"index_topk": 512},
    "wider": {"hidden_size": 192, "num_attention_heads": 8, "head_dim": 80, "index_topk": 16, "sliding_window": 32},
}
SIZES = (1, 3, 4, 5, 63, 127, 128, 129, 255, 256, 257)
QUICK = (5, 129, 257)


@pytest.fixture(scope="module", params=SHAPES)
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Network]:
    folder = tmp_path_factory.mktemp("network")
    write_tiny(folder, seed=1, changes=SHAPES[request.param])
    return folder, load(folder)


@pytest.fixture(scope="module")
def expected(network: tuple[Path, Network]) -> torch.Tensor:
    return transformers_logits(network[0], torch.tensor(TOKENS))


def difference(
    pieces: list[int], network: tuple[Path, Network], expected: torch.Tensor, *, decode: bool = False
) -> float:
    """Largest |logit difference|, over as many tokens as the pieces hold."""
    got = network[1].feed(TOKENS, pieces, slot=2, first_block=3, decode=decode)
    return float((got - expected[: sum(pieces)]).abs().max())


def pieces_of(size: int) -> list[int]:
    whole, rest = divmod(len(TOKENS), size)
    return [size] * whole + [rest] * (rest > 0)


def test_whole(network: tuple[Path, Network], expected: torch.Tensor) -> None:
    assert difference([len(TOKENS)], network, expected) <= TOLERANCE


@pytest.mark.parametrize("size", QUICK)
def test_in_pieces(size: int, network: tuple[Path, Network], expected: torch.Tensor) -> None:
    assert difference(pieces_of(size), network, expected) <= TOLERANCE


@pytest.mark.long
@pytest.mark.parametrize("size", [size for size in SIZES if size not in QUICK])
def test_in_pieces_of_every_size(size: int, network: tuple[Path, Network], expected: torch.Tensor) -> None:
    assert difference(pieces_of(size), network, expected) <= TOLERANCE


def test_decode_steps(network: tuple[Path, Network], expected: torch.Tensor) -> None:
    """Over the borders of windows of 4 and 128 and of a block."""
    assert difference([250, *[1] * 12], network, expected, decode=True) <= TOLERANCE


@pytest.mark.long
@pytest.mark.parametrize("prompt", [1, 3, 127, 128, 129, 255, 256, 257])
def test_decode_steps_after_a_prompt(prompt: int, network: tuple[Path, Network], expected: torch.Tensor) -> None:
    assert difference([prompt, *[1] * (len(TOKENS) - prompt)], network, expected, decode=True) <= TOLERANCE


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_in_pieces_of_random_sizes(seed: int, network: tuple[Path, Network], expected: torch.Tensor) -> None:
    random = torch.Generator().manual_seed(seed)
    cuts = (torch.randperm(len(TOKENS) - 1, generator=random)[: 5 + 2 * seed] + 1).sort().values.tolist()
    pieces = [last - first for first, last in zip([0, *cuts], [*cuts, len(TOKENS)], strict=True)]
    assert difference(pieces, network, expected) <= TOLERANCE
