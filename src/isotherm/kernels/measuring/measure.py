"""Measures cases one after the other: the fast version against the reference, a stock one, and the machine's roof."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

import torch

from isotherm.kernels.cpu import compiled
from isotherm.kernels.dispatch import LATENT_REFERENCE, VARIANTS, LatentOps, select_latent
from isotherm.kernels.measuring import attention, rest
from isotherm.kernels.measuring.case import Case, Data
from isotherm.kernels.measuring.roof import Roof, measure_roof

LONGEST = 262_144
"""Tokens of the longest context that the stock indexer is configured for."""
OPS = ("attend", "choose", "compress_rows", "write_rows", "read_rows", "read", "mix", "turn")


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of one version, from ``calls`` calls."""

    median: float
    fastest: float
    calls: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """One case. ``error`` is the fast version's against float64; ``predicted`` seconds from bytes and flops."""

    op: str
    shape: str
    bytes: int
    flops: int
    predicted: float
    error: float
    tolerance: float
    fast: Times
    reference: Times
    stock: Times | None

    @property
    def right(self) -> bool:
        return self.error <= self.tolerance

    def as_json(self) -> dict[str, Any]:
        """Every field and what follows from them: ratios are of medians."""
        stock = None if self.stock is None else self.stock.median / self.fast.median
        ratios = {"over_roof": self.fast.median / self.predicted, "stock_over_fast": stock}
        return {**asdict(self), "right": self.right, **ratios}


@dataclass(slots=True)
class Report:
    """What was measured, with which versions, on how many threads."""

    versions: str
    threads: int
    roof: Roof
    measurements: list[Measurement] = field(default_factory=list)
    interrupted: bool = False

    @property
    def clean(self) -> bool:
        return not self.interrupted and all(each.right for each in self.measurements)

    def as_json(self) -> dict[str, Any]:
        rows = [each.as_json() for each in self.measurements]
        return {**asdict(self), "measurements": rows, "clean": self.clean}


def cases(ops: Sequence[str], *, quick: bool) -> list[Case]:
    """Those of some operations; quick ones are few and small."""
    every = [
        *attention.attend_cases(("fp8_e4m3", "bfloat16")[: 1 if quick else 2], (2,) if quick else (1, 8, 32)),
        *attention.choose_cases((4096,) if quick else (4096, 65_536)),
        rest.compress_case(4 if quick else 32),
        rest.write_case(256 if quick else 4096),
        rest.read_rows_case(256 if quick else 4096),
        rest.read_case(2 if quick else 8),
        rest.mix_case(1 if quick else 4),
        rest.turn_case(2 if quick else 32),
    ]
    return [each for each in every if each.op in ops]


def measure(
    ops: Sequence[str], show: Callable[[str], None], *, quick: bool = False, threads: int | None = None
) -> Report:
    """Measure operations by name on the CPU; see ``measure_cases``."""
    return measure_cases(cases(ops, quick=quick), show, seconds=0.05 if quick else 0.5, threads=threads)


def measure_cases(
    todo: Iterable[Case], show: Callable[[str], None], *, seconds: float, threads: int | None = None
) -> Report:
    """Measure cases on the CPU, every version for so many seconds; an interrupt ends it with what there is."""
    with _threads(threads) as used:
        show("the machine's roof: bandwidth, vectors, matrix unit")
        fast = select_latent(torch.device("cpu"), attention.SIZE)
        report = Report(fast.name, used, measure_roof(used))
        try:
            for each in _measured(todo, fast, report.roof, show, seconds):
                report.measurements.append(each)
        except KeyboardInterrupt:
            report.interrupted = True
    return report


@contextmanager
def _threads(wanted: int | None) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(wanted or before)
    compiled.use_threads(wanted or before)
    try:
        yield wanted or before
    finally:
        torch.set_num_threads(before)
        compiled.use_threads(before)


def _measured(
    todo: Iterable[Case], fast: LatentOps, roof: Roof, show: Callable[[str], None], budget: float
) -> Iterator[Measurement]:
    stock = select_latent(torch.device("cpu"), attention.SIZE, variants=VARIANTS, index_rows=LONGEST // 4)
    for case in todo:
        show(f"{case.op}, {case.shape}: making its data")
        torch.manual_seed(0)
        data = case.make()
        error = data.error(data.run(fast, 0))
        versions = {"fast": fast, "reference": LATENT_REFERENCE, **({"stock": stock} if case.stock else {})}
        times = {}
        for name, ops in versions.items():
            show(f"{case.op}, {case.shape}: the {name} version")
            times[name] = _timed(data, ops, budget)
        work = case.work
        yield Measurement(
            case.op, case.shape, work.bytes, work.flops, roof.seconds(work), error, data.tolerance, times["fast"],
            times["reference"], times.get("stock"),
        )  # fmt: skip


def _timed(data: Data, ops: LatentOps, budget: float) -> Times:
    """Calls for ``budget`` seconds, one after the warm-up at least, over all sets of data in turn."""
    data.run(ops, 0)
    times: list[float] = []
    while sum(times) < budget:
        began = time.perf_counter()
        data.run(ops, len(times) % data.sets)
        times.append(time.perf_counter() - began)
    return Times(median(times), min(times), len(times))
