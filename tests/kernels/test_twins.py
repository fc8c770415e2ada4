"""Every compiled CPU operation against its plain PyTorch reference."""

from __future__ import annotations

import pytest
import torch

from isotherm.base.block import BLOCK_SIZE
from isotherm.kernels import dispatch

HEADS, GROUPS, SIZE, BLOCKS = 9, 3, 64, 24
CPU = dispatch.select(torch.device("cpu"), torch.float32, SIZE)
REF = dispatch.REFERENCE
DTYPES = [torch.float32, torch.bfloat16]
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def caches(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    pair = 2 if dtype == torch.bfloat16 else 1
    keys = torch.randn(BLOCKS, GROUPS, SIZE // pair, BLOCK_SIZE, pair).to(dtype)
    return keys, torch.randn(BLOCKS, GROUPS, BLOCK_SIZE // pair, SIZE, pair).to(dtype)


def close(left: torch.Tensor, right: torch.Tensor, dtype: torch.dtype) -> None:
    assert left.shape == right.shape
    torch.testing.assert_close(left.float(), right.float(), atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def test_the_cpu_twins_are_chosen_here() -> None:
    assert CPU.name == "cpu-numba"
    assert dispatch.select(torch.device("cpu"), torch.float32, 24).name == "reference"
    assert dispatch.select(torch.device("meta"), torch.float32, SIZE).name == "reference"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("with_addend", [True, False])
def test_add_rms_norm(dtype: torch.dtype, with_addend: bool) -> None:
    x, weight = torch.randn(7, 576), torch.randn(576)
    y = torch.randn(7, 576).to(dtype) if with_addend else None
    x_ref, x_cpu = x.clone(), x.clone()
    close(CPU.add_rms_norm(x_cpu, y, weight, 1e-5, dtype), REF.add_rms_norm(x_ref, y, weight, 1e-5, dtype), dtype)
    torch.testing.assert_close(x_cpu, x_ref)


@pytest.mark.parametrize("dtype", DTYPES)
def test_silu_mul(dtype: torch.dtype) -> None:
    gate_up = (torch.randn(5, 2 * 1536) * 8).to(dtype)
    gate_up[0, :4] = torch.tensor([-300.0, 300.0, 0.0, -90.0])
    close(CPU.silu_mul(gate_up), REF.silu_mul(gate_up), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rotate_and_store(dtype: torch.dtype) -> None:
    rows = 6
    qkv = torch.randn(rows, (HEADS + 2 * GROUPS) * SIZE).to(dtype)
    angle = torch.rand(rows, SIZE // 2) * 6
    slots = torch.tensor([3, 31, 32, 95, 400, 767])
    mine, theirs = caches(dtype), caches(dtype)
    theirs = (mine[0].clone(), mine[1].clone())
    query = CPU.rotate_and_store(qkv, HEADS, angle.cos(), angle.sin(), slots, *mine)
    expected = REF.rotate_and_store(qkv, HEADS, angle.cos(), angle.sin(), slots, *theirs)
    torch.testing.assert_close(query, expected, atol=1e-5, rtol=1e-5)
    close(mine[0], theirs[0], dtype)
    assert torch.equal(mine[1], theirs[1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_attend_decode(dtype: torch.dtype) -> None:
    lengths = torch.tensor([1, 31, 32, 33, 190], dtype=torch.int32)
    tables = torch.stack([torch.randperm(BLOCKS)[:6] for _ in lengths]).int()
    query = torch.randn(len(lengths), HEADS, SIZE)
    args = (query, tables, lengths, *caches(dtype), 0.125)
    close(CPU.attend_decode(*args), REF.attend_decode(*args), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("start", "rows"), [(0, 1), (0, 70), (1, 1), (3, 9), (31, 1), (64, 33), (100, 1), (33, 90)])
def test_attend_prefill(dtype: torch.dtype, start: int, rows: int) -> None:
    blocks = torch.randperm(BLOCKS)[: -(-(start + rows) // BLOCK_SIZE)]
    args = (torch.randn(rows, HEADS, SIZE), start, blocks, *caches(dtype), 0.125)
    close(CPU.attend_prefill(*args), REF.attend_prefill(*args), dtype)


def test_a_decode_row_is_bitwise_the_same_alone_and_in_a_crowd() -> None:
    lengths = torch.randint(1, 190, (40,), dtype=torch.int32)
    tables = torch.stack([torch.randperm(BLOCKS)[:6] for _ in lengths]).int()
    query, cache = torch.randn(40, HEADS, SIZE), caches(torch.bfloat16)
    crowd = CPU.attend_decode(query, tables, lengths, *cache, 0.125)
    for row in range(40):
        one = slice(row, row + 1)
        assert torch.equal(CPU.attend_decode(query[one], tables[one], lengths[one], *cache, 0.125)[0], crowd[row])
