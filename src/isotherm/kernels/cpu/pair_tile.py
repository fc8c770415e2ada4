"""Products of bfloat16 rows and one tile of bfloat16 weights, for so few rows that reading the weights is the cost.

The tile is [K/2, 16, 2] (see ``tiled_weight``). A row's sums run in two chains, even and odd pairs, so that one
product does not wait for the last; the order is the same whatever rows are beside it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from isotherm.kernels.cpu.compiled import intrinsic
from isotherm.kernels.cpu.pairs import pair_product
from isotherm.kernels.cpu.quant_tile import AHEAD, LINE, prefetch
from isotherm.kernels.cpu.vector import FLOATS, INTS, LANES, element, in_runs, spread

_I32, _I64 = ir.IntType(32), ir.IntType(64)
CHAINS = 2


def _int(value: int) -> ir.Constant:
    return ir.Constant(_I64, value)


@intrinsic
def pair_tile(
    typing_context: Any,
    weights: Any,
    w_at: Any,
    x: Any,
    rows: Any,
    inputs: Any,
    out: Any,
    o_at: Any,
    width: Any,
) -> Any:
    """x uint16 [rows, inputs] times the tile at byte ``w_at`` of weights uint8, to float32 rows ``width`` apart."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        tile = element(context, builder, signature.args[0], args[0], args[1])
        activations = element(context, builder, signature.args[2], args[2], _int(0))
        words = builder.bitcast(activations, _I32.as_pointer())
        rows, inputs, width = args[3], args[4], args[7]
        pairs = builder.lshr(inputs, _int(1))

        def run(count: int, first: Any) -> None:
            zero = ir.Constant(FLOATS, [0.0] * LANES)
            sums = [[cgutils.alloca_once(builder, FLOATS) for _ in range(CHAINS)] for _ in range(count)]
            for place in (each for chains in sums for each in chains):
                builder.store(zero, place)
            with cgutils.for_range(builder, builder.lshr(pairs, _int(1))) as loop:
                for chain in range(CHAINS):
                    pair = builder.add(builder.mul(loop.index, _int(CHAINS)), _int(chain))
                    source = builder.gep(tile, [builder.mul(pair, _int(LINE))])
                    prefetch(builder, source, LINE, AHEAD)
                    vector = builder.load(builder.bitcast(source, INTS.as_pointer()), align=1)
                    for row, chains in enumerate(sums):
                        at = builder.add(builder.mul(builder.add(first, _int(row)), pairs), pair)
                        word = spread(builder, builder.load(builder.gep(words, [at]), align=2), INTS)
                        so_far = builder.load(chains[chain])
                        builder.store(pair_product(builder, word, vector, so_far), chains[chain])
            for row, chains in enumerate(sums):
                at = builder.add(args[6], builder.mul(width, builder.add(first, _int(row))))
                target = element(context, builder, signature.args[5], args[5], at)
                total = builder.fadd(*(builder.load(chain) for chain in chains))
                builder.store(total, builder.bitcast(target, FLOATS.as_pointer()), align=4)

        in_runs(builder, rows, run)
        return context.get_dummy_value()

    i = types.int64
    return types.void(weights, i, x, i, i, out, i, i), generate
