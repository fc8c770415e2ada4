"""The compiled operations of DeepSeek-V4 against their plain PyTorch references."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
import torch

from isotherm.kernels import dispatch
from isotherm.kernels.cpu import dense, many_experts
from isotherm.kernels.cpu.amx import has_amx
from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.choose import best
from isotherm.kernels.cpu.latent_rows import fetch_row
from isotherm.kernels.layouts import Rows, index_layout, latent_layout
from isotherm.kernels.reference.latent_attention import Seen

CPU = dispatch.select_latent(torch.device("cpu"), 64)
REF = dispatch.LATENT_REFERENCE
ROWS = [1, 5, 70]
PRECISIONS = ["float32", "bfloat16", "fp8_e4m3"]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def close(ours: Any, expected: Any, tolerance: float = 2e-5) -> None:
    torch.testing.assert_close(ours, expected, atol=tolerance, rtol=tolerance)


def filled(name: str, width: int, rotated: int, pages: int, per_page: int) -> Rows:
    """A store with numbers in all its rows; ``rotated`` 0 means the indexer's keys."""
    layout = latent_layout(name, width, rotated) if rotated else index_layout(name, width)
    rows = Rows(layout, layout.allocate(pages, per_page, torch.device("cpu")), per_page)
    page = torch.arange(pages).repeat_interleave(per_page)
    rows.write(page, torch.arange(per_page).repeat(pages), torch.randn(pages * per_page, width))
    return rows


def test_the_compiled_ones_are_chosen_here() -> None:
    assert CPU.name == "cpu-numba"
    assert dispatch.select_latent(torch.device("cpu"), 24).name == "reference"
    assert dispatch.select_latent(torch.device("meta"), 64).name == "reference"


@pytest.mark.parametrize("rows", ROWS)
def test_streams(rows: int) -> None:
    streams, norm = torch.randn(rows, 4, 48), torch.rand(48)
    connection = torch.randn(24, 192) / 8, torch.randn(24), torch.rand(3) + 0.5
    close(CPU.read(streams, *connection, norm, 20, 1e-6, 1e-6), REF.read(streams, *connection, norm, 20, 1e-6, 1e-6))
    end = torch.randn(4, 192) / 8, torch.randn(4), torch.rand(1), norm, 1e-6, 1e-6
    close(CPU.end(streams, *end), REF.end(streams, *end))
    for output in (torch.randn(rows, 48), torch.randn(rows, 48).bfloat16()):
        arguments = output, streams, torch.rand(rows, 4), torch.rand(rows, 4, 4)
        close(CPU.expand(*arguments), REF.expand(*arguments))


@pytest.mark.parametrize("rows", ROWS)
def test_norm_and_rotation(rows: int) -> None:
    angles, weight = torch.randn(rows, 8), torch.rand(80)
    for x in (torch.randn(rows, 80), torch.randn(rows, 5, 80), torch.randn(rows, 80).bfloat16()):
        for options in ((), (1e-6,), (1e-6, weight)):
            close(CPU.turn(x, angles.cos(), angles.sin(), *options), REF.turn(x, angles.cos(), angles.sin(), *options))
    close(CPU.norm(x, weight, 1e-6), REF.norm(x, weight, 1e-6))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("inputs", "outputs"), [(16, 5), (48, 64), (1024, 300)])
def test_products_of_few_rows(inputs: int, outputs: int, dtype: torch.dtype) -> None:
    weight, x = torch.randn(outputs, inputs).to(dtype), torch.randn(3, inputs).to(dtype)
    close(dense.linear(x, as_array(weight)), x.float() @ weight.float().T, 2e-4)


@pytest.mark.parametrize("rows", [1, 100])
@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize(("width", "rotated"), [(80, 16), (512, 64), (32, 0)])
def test_rows_have_the_same_bytes(width: int, rotated: int, name: str, rows: int) -> None:
    ours, theirs = filled(name, width, rotated, 3, 64), filled(name, width, rotated, 3, 64)
    ours.data.copy_(theirs.data)
    place = torch.randperm(3 * 64)[:rows]
    values = torch.randn(rows, width) * torch.exp(4 * torch.randn(rows, 1))
    values[0, :16] = torch.tensor([0.0, -0.0, 2**-10, -(2**-9), 1.5 * 2**-9, 0.015, 448, 464, 500, -1e5] + [1.0] * 6)
    CPU.write_rows(ours, place // 64, place % 64, values)
    theirs.write(place // 64, place % 64, values)
    assert torch.equal(ours.data.view(torch.uint8), theirs.data.view(torch.uint8))
    assert torch.equal(CPU.read_rows(ours, place // 64, place % 64), theirs.read(place // 64, place % 64))


def test_every_code_of_eight_bits_is_read() -> None:
    rows = filled("fp8_e4m3", 512, 64, 1, 2)
    codes = torch.tensor([code for code in range(256) if code & 0x7F != 0x7F], dtype=torch.uint8)
    rows.data[0, : len(codes)] = codes
    at = torch.tensor([0])
    assert torch.equal(CPU.read_rows(rows, at, at)[0], rows.read(at, at)[0])


@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize(("ratio", "overlap"), [(4, 2), (128, 1)])
@pytest.mark.parametrize("sequences", [1, 3, 20])
def test_tokens_are_compressed(sequences: int, ratio: int, overlap: int, name: str) -> None:
    """Steps over several windows, sequences at different positions, some at their very beginning."""
    size, rotated = 80, 16
    stores = [filled(name, size, rotated, 2 * sequences, 256 // ratio) for _ in range(2)]
    stores[0].data.copy_(stores[1].data)
    states = [torch.full((sequences, overlap * ratio, 2 * overlap * size), float("nan")) for _ in range(2)]
    ape, norm = torch.randn(ratio, overlap * size), torch.rand(size)
    slots, tables = torch.randperm(sequences), torch.randperm(2 * sequences).view(sequences, 2)
    begins = torch.arange(sequences) % 3 * ratio
    for step in range(2 * ratio + 1):
        angles = torch.randn(sequences, rotated // 2)
        fresh = torch.randn(sequences, 2 * overlap * size)
        for ops, state, rows in zip((CPU, REF), states, stores, strict=True):
            if step == 0:
                state.nan_to_num_(0.5)
            ops.compress_rows(
                fresh, ape, norm, 1e-6, angles.cos(), angles.sin(), state, slots, begins + step, tables, rows
            )
    every = (
        torch.arange(2 * sequences).repeat_interleave(256 // ratio),
        torch.arange(256 // ratio).repeat(2 * sequences),
    )
    loose = {"float32": 2e-5, "bfloat16": 2e-2, "fp8_e4m3": 0.15}[name]
    close(stores[0].read(*every), stores[1].read(*every), loose)


@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize("heads", [4, 16, 40])
def test_rows_are_chosen(heads: int, name: str) -> None:
    counts = torch.tensor([0, 3, 16, 17, 700, 1290])
    keys, tables = filled(name, 32, 0, 24, 64), torch.randperm(24)[:21].expand(2, 21).contiguous()
    queries, weights, of = torch.randn(6, heads, 32), torch.randn(6, heads), torch.tensor([0, 1, 0, 1, 0, 1])
    ours = CPU.choose(queries, weights, keys, tables, of, counts, 16)
    expected = REF.choose(queries, weights, keys, tables, of, counts, 16)
    for row, count in enumerate(counts.clamp(max=16).tolist()):
        assert ours[row, :count].tolist() == expected[row, :count].tolist()


@pytest.mark.parametrize("seed", range(20))
def test_of_equal_scores_the_lower_index_is_chosen(seed: int) -> None:
    random = np.random.default_rng(seed)
    scores = random.integers(0, 1 + seed % 5, 300).astype(np.float32)
    for k in (1, 7, 299, 300, 400):
        out = np.full(k, -1, np.int32)
        best(scores, 300, k, np.empty(300, np.float32), out)
        expected = np.sort(np.argsort(-scores, kind="stable")[:k])
        assert out[: len(expected)].tolist() == expected.tolist()


def seen(rows: int, listed: bool) -> Seen:
    recents = torch.tensor([1, 16, 7, 16, 3])[:rows]
    counts = torch.tensor([0, 1, 33, 64, 130])[:rows]
    chosen = torch.stack([torch.randperm(180)[:130] for _ in range(rows)]).to(torch.int32) if listed else None
    tables = torch.randperm(6)[:3].expand(rows, 3).contiguous()
    return Seen(
        torch.randperm(5)[:rows], torch.randint(16, (rows,)), recents, tables, torch.arange(rows), counts, chosen
    )


@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize("heads", [1, 4, 16, 40, 64])
@pytest.mark.parametrize("listed", [True, False])
def test_attention_over_what_is_seen(listed: bool, heads: int, name: str) -> None:
    window, rows = filled(name, 80, 16, 5, 16), filled(name, 80, 16, 6, 64)
    query, sink, angles = torch.randn(5, heads, 80), torch.randn(heads), torch.randn(5, 8)
    arguments = window, seen(5, listed), rows, sink, 80**-0.5, angles.cos(), angles.sin()
    ours = CPU.attend(query, *arguments)
    # The matrix unit multiplies bfloat16 numbers; ``test_matrix_attention`` says how exact that must be.
    rounded = has_amx() and heads >= 16 and name != "float32"
    close(ours, REF.attend(query, *arguments), 2e-2 if rounded else 2e-5)
    # A row's result is its own, whatever is beside it.
    alone = Seen(*(None if each is None else each[2:3].contiguous() for each in fields(arguments[1])))
    alone = Seen(alone.pages, alone.firsts, alone.recents, alone.tables, torch.tensor([0]), alone.counts, alone.chosen)
    one = CPU.attend(query[2:3].contiguous(), window, alone, rows, sink, 80**-0.5, angles[2:3].cos(), angles[2:3].sin())
    assert torch.equal(one[0], ours[2])


def fields(each: Seen) -> tuple[torch.Tensor | None, ...]:
    return each.pages, each.firsts, each.recents, each.tables, each.of, each.counts, each.chosen


@pytest.mark.parametrize("rows", ROWS)
def test_rows_are_routed(rows: int) -> None:
    logits = torch.randn(rows, 24) * 8
    for bias, ids in ((torch.randn(24), None), (None, torch.randint(24, (rows, 3)))):
        ours, expected = CPU.route(logits, bias, ids, 3, 1.5), REF.route(logits, bias, ids, 3, 1.5)
        assert torch.equal(ours[0], expected[0])
        close(ours[1], expected[1])
    ties = torch.zeros(1, 24)
    assert CPU.route(ties, torch.zeros(24), None, 3, 1.0)[0].tolist() == [[0, 1, 2]]


Layers = tuple[torch.Tensor, torch.Tensor]


def mixed(x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, layers: Layers, limit: float) -> torch.Tensor:
    """The experts' outputs, which are near those in float32 measured by each row's largest."""
    ours = CPU.mix(x, ids, weights, *layers, limit)
    exact = REF.mix(x.float(), ids, weights, layers[0].float(), layers[1].float(), limit)
    error = (ours - exact).abs().amax(-1) / exact.abs().amax(-1)
    assert error.max() < (2e-5 if x.dtype == torch.float32 else 2e-2)
    return ours


def expert_layers(experts: int, channels: int, inner: int, dtype: torch.dtype) -> Layers:
    gate_up, down = torch.randn(experts, 2 * inner, channels), torch.randn(experts, channels, inner)
    return gate_up.div(channels**0.5).to(dtype), down.div(inner**0.5).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("inner", [48, 64])
def test_experts(inner: int, rows: int, dtype: torch.dtype) -> None:
    x, layers = torch.randn(rows, 64).to(dtype), expert_layers(6, 64, inner, dtype)
    ids, weights = torch.stack([torch.randperm(5)[:2] for _ in range(rows)]), torch.rand(rows, 2)
    mixed(x, ids, weights, layers, 10.0)


@pytest.mark.parametrize("limit", [0.5, 10.0])
def test_experts_of_unequal_load(limit: float) -> None:
    """Whole and broken tiles and blocks of rows; what a row gets depends on no thread and on no other row."""
    chosen = torch.arange(6).repeat_interleave(torch.tensor([0, 1, 16, 17, 0, 6]))
    x, order, weights = torch.randn(40, 160).bfloat16(), torch.randperm(40), torch.rand(40, 2)
    ids = torch.stack([torch.full((40,), 4), chosen], 1)[order]
    layers = expert_layers(7, 160, 96, torch.bfloat16)
    ours = mixed(x, ids, weights, layers, limit)
    assert torch.equal(CPU.mix(x, ids, weights, *layers, limit), ours)
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        assert torch.equal(CPU.mix(x, ids, weights, *layers, limit), ours)
        if many_experts.fits(layers[1]):
            part = CPU.mix(x[20:29].contiguous(), ids[20:29].contiguous(), weights[20:29].contiguous(), *layers, limit)
            assert torch.equal(part, ours[20:29])
    finally:
        numba.set_num_threads(threads)


def test_experts_pass_on_what_is_no_number() -> None:
    x, layers = torch.randn(20, 64).bfloat16(), expert_layers(3, 64, 64, torch.bfloat16)
    x[3, 5] = float("nan")
    mixed = CPU.mix(x, torch.arange(40).view(20, 2) % 2, torch.rand(20, 2), *layers, 10.0)
    assert mixed[3].isnan().all()
    assert not mixed[torch.arange(20) != 3].isnan().any()


def test_what_is_for_compiled_code_says_so() -> None:
    with pytest.raises(TypeError, match="fetch_row exists in compiled code alone"):
        fetch_row(np.empty((1, 1, 16), np.float32), 0, 0, 16, 0, np.empty(16, np.float32), 0)
