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

BATCHES = (1, 8, 32)


def row(threads: int, precision: str, batch: int, found: list[Measurement], order: int) -> list[Row]:
    """Ours over the roof, with its bar where there is one, and the stock version over ours."""
    setting = f"{threads} thread{'s' if threads > 1 else ''}"
    what = f"DeepSeek-V4-Flash: sparse decode, {precision}, {batch} row{'s' if batch > 1 else ''}, {setting}"
    ours = Side("Isotherm", [each.fast.median / batch * 1e6 for each in found], "µs a row", setting)
    roof = Side("roof", [each.predicted / batch * 1e6 for each in found], "µs a row", setting)
    stock = Side("stock", [each.stock.median / batch * 1e6 for each in found if each.stock], "µs a row", setting)
    over_roof = [each.fast.median / each.predicted for each in found]
    faster = [each.stock.median / each.fast.median for each in found if each.stock]
    error = max(each.error for each in found)
    bar = 1.5 if precision == "fp8_e4m3" else None
    return [
        Row(f"{what}: over the roof", over_roof, "x", [ours, roof], at_most=bar, order=order, remarks={"error": error}),
        Row(f"{what}: stock over ours", faster, "x", [ours, stock], order=order + 1),
    ]


def main() -> int:
    args = arguments.parser(__doc__).parse_args()
    pairs, batches, precisions = args.pairs, BATCHES, ("fp8_e4m3", "bfloat16")
    if args.quick:
        pairs, batches, precisions = 1, (8,), ("fp8_e4m3",)
    rows: list[Row] = []
    for threads in sorted({1, torch.get_num_threads()}):
        for precision in precisions:
            for batch in batches:
                cases = attention.attend_cases((precision,), (batch,))
                found = [
                    measure_cases(cases, lambda _: None, seconds=0.3, threads=threads).measurements[0]
                    for _ in range(pairs)
                ]
                rows += row(threads, precision, batch, found, 60 + len(rows))
                say(", ".join(f"{each.what} {each.values[-1]:.2f}x" for each in rows[-2:]))
    return write("kernels", rows, quick=args.quick, out=args.out)


if __name__ == "__main__":
    sys.exit(main())
