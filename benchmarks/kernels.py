"""Sparse decode of DeepSeek-V4 at Flash shape against what this machine can do, and against a stock version.

    python benchmarks/kernels.py

One query's 64 heads over 128 rows of a window and 512 chosen ones, of caches that no query before has touched. The roof
is measured before every pair: the bytes that must be read over the bandwidth, or the products over the matrix unit's
speed on numbers like these, whichever takes longer.
"""

from __future__ import annotations

import sys

import torch

from isotherm.kernels.measuring import attention
from isotherm.kernels.measuring.measure import Measurement, measure_cases
from lab import arguments
from lab.rows import Row, Side, write
from lab.servers import say

SHAPES = (("fp8_e4m3", 1), ("fp8_e4m3", 8), ("fp8_e4m3", 32), ("bfloat16", 32))
QUICK = SHAPES[1:2]
MOST = 32
"""The batch at which the stock version is compared, too."""


def compared(threads: int, precision: str, batch: int, found: list[Measurement], order: int) -> list[Row]:
    """Ours over the roof, and for a large batch the stock version over ours."""
    setting = f"{threads} thread{'s' if threads > 1 else ''}"
    what = f"DeepSeek-V4-Flash: sparse decode, {precision}, {batch} row{'s' if batch > 1 else ''}, {setting}"
    ours = Side("Isotherm", [each.fast.median / batch * 1e6 for each in found], "µs a row", setting)
    roof = Side("roof", [each.predicted / batch * 1e6 for each in found], "µs a row", setting)
    over_roof = [each.fast.median / each.predicted for each in found]
    remarks = {"error": max(each.error for each in found)}
    bar = 1.5 if precision == "fp8_e4m3" else None
    rows = [Row(f"{what}: over the roof", over_roof, "x", [ours, roof], at_most=bar, order=order, remarks=remarks)]
    if batch == MOST:
        stock = Side("stock", [each.stock.median / batch * 1e6 for each in found if each.stock], "µs a row", setting)
        faster = [each.stock.median / each.fast.median for each in found if each.stock]
        rows.append(Row(f"{what}: stock over ours", faster, "x", [ours, stock], order=order + 1))
    return rows


def main() -> int:
    args = arguments.parser(__doc__).parse_args()
    pairs, shapes = (1, QUICK) if args.quick else (args.pairs, SHAPES)
    rows: list[Row] = []
    for threads in sorted({1, torch.get_num_threads()}):
        for precision, batch in shapes:
            cases = attention.attend_cases((precision,), (batch,))
            found = [
                measure_cases(cases, lambda _: None, seconds=0.3, threads=threads).measurements[0] for _ in range(pairs)
            ]
            rows += compared(threads, precision, batch, found, 80 + len(rows))
            say(f"{rows[-1].what}: {rows[-1].values[-1]:.2f}x")
    return write("kernels", rows, quick=args.quick, out=args.out)


if __name__ == "__main__":
    sys.exit(main())
