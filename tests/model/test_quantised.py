"""Weights kept in their bits stand for the numbers that ggml's own decoding gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from isotherm.model.quantised import BITS, expand, keeps, stack
from isotherm.model.tensors import STORAGES, Bytes, TensorSource


class Stored(TensorSource):
    """Random blocks of a kind, their scales ordinary numbers."""

    def __init__(self, kind: str, rows: int, columns: int) -> None:
        self.kind, self.shape = kind, (rows, columns)
        storage = STORAGES[kind]
        random = np.random.default_rng(rows)
        blocks = random.integers(0, 256, (rows, columns // storage.elements, storage.nbytes), dtype=np.uint8)
        scales = 4 if kind in ("Q4_1", "Q4_K") else 2
        numbers = random.normal(0, 0.01, (*blocks.shape[:2], scales // 2)).astype(np.float16)
        blocks[..., :scales] = numbers.view(np.uint8)
        self._raw = blocks.reshape(rows, -1)

    def raw(self) -> Bytes:
        return self._raw


@pytest.mark.parametrize("kind", BITS)
def test_kept_weights_are_those_of_the_file(kind: str) -> None:
    sources = [Stored(kind, rows, 512) for rows in (48, 16)]
    assert keeps(sources)
    expected = torch.from_numpy(np.concatenate([source.dequantize() for source in sources]))
    got = expand(stack(sources), torch.float32)
    # Q4_K's scales and minima are products, rounded to float16.
    tolerance = 2e-3 * expected.abs().max() if kind == "Q4_K" else 1e-6
    assert (got - expected).abs().max() <= tolerance


def test_what_does_not_map_is_not_kept() -> None:
    assert not keeps([Stored("Q6_K", 16, 256)])
    assert not keeps([Stored("Q4_0", 16, 256), Stored("Q4_1", 16, 256)])
    assert not keeps([Stored("Q4_0", 8, 256)])
