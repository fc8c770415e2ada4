"""Quantised products against plain ones, and the promise that a row does not depend on its company."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from isotherm.kernels.cpu import quant_tile
from isotherm.kernels.cpu.amx import has_amx
from isotherm.kernels.cpu.matmul import matmul
from isotherm.kernels.cpu.tiled_weight import TiledWeight, expand, pack, pack_pairs

FORMS = [False, True] if has_amx() else [False]
"""Vectors, and the matrix unit where there is one."""


def random_weight(bits: int, outputs: int = 192, inputs: int = 576) -> tuple[TiledWeight, torch.Tensor]:
    """A packed weight, and the numbers that it stands for as float32 [outputs, inputs]."""
    random = np.random.default_rng(bits)
    if bits == 16:
        numbers = torch.from_numpy(random.normal(0, 0.05, (outputs, inputs))).bfloat16()
        return pack_pairs(numbers), numbers.float()
    quants = random.integers(0, 2**bits, (outputs, inputs), dtype=np.uint8)
    scale = random.normal(0, 0.01, (outputs, inputs // 32)).astype(np.float16)
    offset = random.normal(0, 0.05, (outputs, inputs // 32)).astype(np.float16)
    numbers = quants * scale.astype(np.float32).repeat(32, 1) + offset.astype(np.float32).repeat(32, 1)
    return pack(quants, scale, offset, bits), torch.from_numpy(numbers.astype(np.float32))


def rounded(x: torch.Tensor) -> torch.Tensor:
    """Activations as the kernel sees them: groups of 32 rounded to 127 steps of their largest magnitude."""
    groups = x.float().unflatten(1, (-1, 32))
    top = groups.abs().amax(-1, keepdim=True)
    # Divided as tensors: torch would turn 127 / top into a rounded reciprocal times 127.
    quants = (groups * torch.div(torch.tensor(127.0), top)).round()
    return torch.where(top > 0, quants * (top * (1 / 127)), 0).flatten(1)


@pytest.mark.parametrize("bits", [4, 8])
def test_expand_is_exact(bits: int) -> None:
    weight, numbers = random_weight(bits)
    torch.testing.assert_close(expand(weight, torch.float32), numbers, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(expand(weight, torch.bfloat16), numbers.bfloat16(), atol=0, rtol=8e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 13, 40])
@pytest.mark.parametrize("bits", [4, 8])
def test_product_differs_only_by_the_rounding_of_activations(bits: int, rows: int, dtype: torch.dtype) -> None:
    weight, numbers = random_weight(bits)
    x = torch.randn(rows, 576, generator=torch.Generator().manual_seed(rows)).to(dtype)
    x[0, :32] = 0
    out = matmul(x, weight, matrix_unit=False)
    torch.testing.assert_close(out, rounded(x) @ numbers.T, atol=2e-4, rtol=1e-4)
    full = x.float() @ numbers.T
    assert (out - full).norm() < 0.01 * full.norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 2, 16, 17, 32, 33, 70])
@pytest.mark.parametrize(
    ("bits", "matrix_unit"), [(16, unit) for unit in FORMS] + [(b, True) for b in (4, 8) if FORMS[-1]]
)
def test_product_of_bfloat16_numbers(bits: int, matrix_unit: bool, rows: int, dtype: torch.dtype) -> None:
    """Activations and weights rounded to bfloat16, sums in float32; an odd number of tiles."""
    weight, numbers = random_weight(bits, outputs=208)
    x = torch.randn(rows, 576, generator=torch.Generator().manual_seed(rows)).to(dtype)
    expected = x.bfloat16().float() @ numbers.bfloat16().float().T
    out = matmul(x, weight, matrix_unit=matrix_unit)
    # A quantised weight half way between two bfloat16 numbers is rounded away from zero here, and to even there.
    assert (out - expected).norm() < (1e-6 if bits == 16 else 1e-3) * expected.norm()


@pytest.mark.parametrize("matrix_unit", FORMS)
@pytest.mark.parametrize("bits", [4, 8, 16])
def test_a_row_is_bitwise_the_same_in_any_company(bits: int, matrix_unit: bool) -> None:
    weight, _ = random_weight(bits)
    x = torch.randn(33, 576, generator=torch.Generator().manual_seed(0))
    together = matmul(x, weight, matrix_unit=matrix_unit)
    for size in (1, 2, 3, 5, 8, 12, 17):
        for first in range(0, 33 - size, size):
            part = matmul(x[first : first + size].contiguous(), weight, matrix_unit=matrix_unit)
            assert torch.equal(part, together[first : first + size])


def test_the_byte_product_is_the_same_with_and_without_the_special_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both forms are exact integer arithmetic; the plain one is what other processors run."""
    import numba

    def dots(kernel: object) -> np.ndarray:
        random = np.random.default_rng(0)
        weights = random.integers(0, 256, 16 * 64, dtype=np.uint8)
        scales = np.ones(2 * 64, np.float16).view(np.uint16)
        quants = random.integers(-127, 128, 64).astype(np.int8)
        out = np.zeros(16, np.float32)
        run = numba.njit(lambda w, s, q, f, o: kernel(w, 0, s, 0, q, f, 1, 64, o, 0, 16))
        run(weights, scales, quants, np.ones(4, np.float32), out)
        return out

    usual = dots(quant_tile.make_tile(8))
    monkeypatch.setattr(quant_tile, "vnni", lambda: False)
    assert np.array_equal(usual, dots(quant_tile.make_tile(8)))
    assert usual.any()
