"""``isotherm bench kernels``: how fast DeepSeek-V4's operations are here, how exact, and what the machine allows."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from isotherm.base.errors import SetupError
from isotherm.cli.extra import require_engine
from isotherm.cli.progress import Progress
from isotherm.settings.load import nearest

if TYPE_CHECKING:
    from isotherm.kernels.measuring.measure import Measurement, Report

EXIT_FINDINGS = 1


def register(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the measurement to those of ``isotherm bench``."""
    kernels = kinds.add_parser(
        "kernels",
        help="the operations of DeepSeek-V4 on this machine",
        description="Exit code 0: measured, all exact enough. 1: a result was wrong, or it was interrupted. "
        "2: could not run.",
        allow_abbrev=False,
    )
    kernels.add_argument("--device", choices=("cpu",), default="cpu", help="where to compute [%(default)s]")
    kernels.add_argument("--ops", metavar="OP,OP,...", help="operations to measure [all]")
    kernels.add_argument("--threads", metavar="N", help="threads to use [all cores]")
    kernels.add_argument("--quick", action="store_true", help="few and small shapes, short times: a try, no figures")
    kernels.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def run(args: argparse.Namespace) -> int:
    """Measure, print, and say by the exit code whether every result was right."""
    require_engine()
    # torch and the compiler load only for this measurement.
    from isotherm.kernels.measuring import measure  # noqa: PLC0415

    ops, threads = _ops(args.ops, measure.OPS), _threads(args.threads)
    progress = Progress()
    try:
        report = measure.measure(ops, progress.show, quick=args.quick, threads=threads)
    finally:
        progress.clear()
    if args.json:
        print(json.dumps(report.as_json(), indent=2))
    else:
        print("\n".join(_lines(report)))
    if report.interrupted:
        print("isotherm: interrupted; what was measured before is above", file=sys.stderr)
    return 0 if report.clean else EXIT_FINDINGS


def _ops(text: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    if text is None:
        return known
    for name in text.split(","):
        if name not in known:
            raise SetupError(f"--ops: {name!r} is no operation.{nearest(name, known)} There are {', '.join(known)}.")
    return tuple(text.split(","))


def _threads(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise SetupError(f"--threads takes whole numbers from 1 up, not {text!r}.")
    return int(text)


def _lines(report: Report) -> list[str]:
    roof, ghz = report.roof, 1e9
    unit = f"{roof.matrix / ghz:,.0f} bfloat16 Gflop/s on the matrix unit" if roof.matrix else "no matrix unit"
    lines = [
        f"{report.versions}, {report.threads} threads. This machine: {roof.bandwidth / ghz:.1f} GB/s from memory, "
        f"{roof.vector / ghz:,.0f} float32 Gflop/s on vectors, {unit}.",
        "Times are medians in microseconds; x roof: the time over what bytes and flops allow.",
        "",
        f"{'operation':14}{'time':>10}{'predicted':>11}{'x roof':>8}{'reference':>12}{'stock':>12}{'error':>10}  shape",
    ]
    return lines + [_line(each) for each in report.measurements]


def _line(each: Measurement) -> str:
    stock = "" if each.stock is None else f"{each.stock.median * 1e6:,.0f}"
    wrong = "" if each.right else f"  WRONG: more than {each.tolerance:.1e}"
    return (
        f"{each.op:14}{each.fast.median * 1e6:>10,.0f}{each.predicted * 1e6:>11,.0f}"
        f"{each.fast.median / each.predicted:>8.1f}{each.reference.median * 1e6:>12,.0f}{stock:>12}{each.error:>10.1e}"
        f"  {each.shape}{wrong}"
    )
