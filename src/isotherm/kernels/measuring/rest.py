"""Cases of the other operations at the shapes of DeepSeek-V4-Flash."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from isotherm.kernels.dispatch import LATENT_REFERENCE, LatentOps
from isotherm.kernels.layouts import Rows, latent_layout
from isotherm.kernels.measuring.attention import CPU, HEADS, PER_PAGE, ROTATED, SIZE
from isotherm.kernels.measuring.case import Case, Data
from isotherm.kernels.measuring.roof import Work
from isotherm.kernels.reference import compress
from isotherm.kernels.reference.rotary import turn

WIDTH, STREAMS, RATIO = 4096, 4, 4
INNER, EXPERTS, ACTIVE = 256, 16, 6
"""An eighth of the experts' width: the time is that of reading weights, and all of them would be gigabytes."""


def relative(out: Tensor, exact: Tensor) -> float:
    """Largest difference relative to the largest number."""
    return float((out - exact).abs().max() / exact.abs().max())


def read_case(rows: int) -> Case:
    mixes = (2 + STREAMS) * STREAMS
    size = STREAMS * WIDTH
    work = Work((mixes + rows) * size * 4, 2 * rows * mixes * size)

    def make() -> Data:
        streams, fn = torch.randn(rows, STREAMS, WIDTH), torch.randn(mixes, size) / size**0.5
        base, scale, norm = torch.randn(mixes), torch.rand(3) + 0.5, torch.rand(WIDTH)
        double = base.double(), scale.double(), norm.double()
        exact = LATENT_REFERENCE.read(streams.double(), fn.double(), *double, 20, 1e-6, 1e-6)

        def error(out: tuple[Tensor, ...]) -> float:
            return max(relative(ours, theirs) for ours, theirs in zip(out, exact, strict=True))

        return Data(lambda ops, _: ops.read(streams, fn, base, scale, norm, 20, 1e-6, 1e-6), 1, error, 1e-4)

    return Case("read", f"{rows} x {STREAMS} streams of {WIDTH}", work, make)


def turn_case(rows: int) -> Case:
    numbers = rows * HEADS * SIZE

    def make() -> Data:
        x, angles = torch.randn(rows, HEADS, SIZE), torch.rand(rows, ROTATED // 2) * 6
        exact = turn(x.double(), angles.cos(), angles.sin(), 1e-6)
        return Data(lambda ops, _: ops.turn(x, angles.cos(), angles.sin(), 1e-6), 1, lambda o: relative(o, exact), 1e-5)

    return Case("turn", f"{rows} x {HEADS} x {SIZE}, normalised", Work(numbers * 4, 3 * numbers), make)


def mix_case(rows: int) -> Case:
    each = 3 * INNER * WIDTH
    work = Work((min(EXPERTS, rows * ACTIVE) + 1) * each * 2, 2 * rows * (ACTIVE + 1) * each)

    def make() -> Data:
        gate_up = (torch.randn(EXPERTS + 1, 2 * INNER, WIDTH) / WIDTH**0.5).bfloat16()
        down = (torch.randn(EXPERTS + 1, WIDTH, INNER) / INNER**0.5).bfloat16()
        x, weights = torch.randn(rows, WIDTH).bfloat16(), torch.rand(rows, ACTIVE)
        ids = (torch.arange(rows * ACTIVE) % EXPERTS).view(rows, ACTIVE)
        exact = LATENT_REFERENCE.mix(x.double(), ids, weights, gate_up.double(), down.double(), 10.0)

        def run(ops: LatentOps, _: int) -> Tensor:
            return ops.mix(x, ids, weights, gate_up, down, 10.0)

        return Data(run, 1, lambda out: relative(out, exact), 2**-6)

    shape = f"bfloat16, {rows} x {WIDTH} x {INNER}, {ACTIVE} of {EXPERTS} experts and the shared one"
    return Case("mix", shape, work, make)


def _places(rows: int) -> tuple[Tensor, Tensor]:
    place = torch.randperm(rows)
    return place // PER_PAGE, place % PER_PAGE


def write_case(rows: int) -> Case:
    layout = latent_layout("fp8_e4m3", SIZE, ROTATED)

    def make() -> Data:
        values, places = torch.randn(rows, SIZE) * 3, _places(rows)
        expected = Rows(layout, layout.allocate(-(-rows // PER_PAGE), PER_PAGE, CPU), PER_PAGE)
        expected.write(*places, values)

        def run(ops: LatentOps, _: int) -> Tensor:
            store = Rows(layout, ours, PER_PAGE)
            ops.write_rows(store, *places, values)
            return ours

        ours = layout.allocate(-(-rows // PER_PAGE), PER_PAGE, CPU)
        return Data(run, 1, lambda out: float((out != expected.data).double().mean()), 0.0)

    return Case("write_rows", f"fp8_e4m3, {rows} rows of {SIZE}", Work(rows * SIZE * 4, 3 * rows * SIZE), make)


def read_rows_case(rows: int) -> Case:
    layout = latent_layout("fp8_e4m3", SIZE, ROTATED)

    def make() -> Data:
        store, places = Rows(layout, layout.allocate(-(-rows // PER_PAGE), PER_PAGE, CPU), PER_PAGE), _places(rows)
        store.write(*places, torch.randn(rows, SIZE) * 3)
        exact = store.read(*places).double()
        return Data(lambda ops, _: ops.read_rows(store, *places), 1, lambda out: relative(out, exact), 0.0)

    return Case("read_rows", f"fp8_e4m3, {rows} rows of {SIZE}", Work(rows * layout.row_bytes, rows * SIZE), make)


def compress_case(rows: int) -> Case:
    width, layout = 2 * SIZE, latent_layout("bfloat16", SIZE, ROTATED)
    work = Work(rows * 2 * RATIO * 2 * width * 4, rows * 2 * RATIO * SIZE * 8)

    def make() -> Data:
        fresh, ape, norm = torch.randn(rows, 2 * width), torch.randn(RATIO, width), torch.rand(SIZE)
        angles, states = torch.rand(rows, ROTATED // 2) * 6, torch.randn(rows, 2 * RATIO, 2 * width)
        slots, positions = torch.arange(rows), torch.full((rows,), 5 * RATIO - 1)
        tables, exact = slots[:, None], torch.empty(rows, SIZE, dtype=torch.float64)
        for t in range(rows):
            pooled = compress.compress_span(fresh[t : t + 1].double(), ape.double(), states[t].double(), 5 * RATIO - 1)
            normed = F.rms_norm(pooled, (SIZE,), norm.double(), 1e-6)
            exact[t] = turn(normed, angles[t : t + 1].cos(), angles[t : t + 1].sin())[0]
        cos, sin = angles.cos(), angles.sin()

        def run(ops: LatentOps, _: int) -> Tensor:
            store = Rows(layout, layout.allocate(rows, PER_PAGE, CPU), PER_PAGE)
            ops.compress_rows(fresh, ape, norm, 1e-6, cos, sin, states.clone(), slots, positions, tables, store)
            return store.read(slots, torch.full((rows,), 4))

        return Data(run, 1, lambda out: relative(out, exact), 2**-8)

    return Case("compress_rows", f"{rows} tokens that fill windows of {RATIO}, overlapped, to {SIZE}", work, make)
