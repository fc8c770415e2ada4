"""Sixteen lines of memory turned into sixteen others: the transpose of a square of 32-bit numbers in registers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from isotherm.kernels.cpu.compiled import intrinsic
from isotherm.kernels.cpu.vector import INTS, LANES, element


def _turned(builder: Any, rows: list[Any]) -> list[Any]:
    """Emit the transpose of sixteen vectors: squares of 8, 4, 2 and 1 numbers change places across the diagonal."""
    size = LANES // 2
    while size:
        low = ir.Constant(INTS, [j if not j & size else LANES + j - size for j in range(LANES)])
        high = ir.Constant(INTS, [j + size if not j & size else LANES + j for j in range(LANES)])
        for i in (i for i in range(LANES) if not i & size):
            pair = rows[i], rows[i + size]
            rows[i], rows[i + size] = builder.shuffle_vector(*pair, low), builder.shuffle_vector(*pair, high)
        size //= 2
    return rows


@intrinsic
def transpose(typing_context: Any, source: Any, places: Any, first: Any, plus: Any, target: Any, to: Any) -> Any:
    """Number j of line i becomes number i of line j, numbers of 32 bits.

    Line i of source begins at element places[first + i] + plus, those of target follow each other from element ``to``.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def line(kind: Any, array: Any, at: Any) -> Any:
            return builder.bitcast(element(context, builder, kind, array, at), INTS.as_pointer())

        rows = []
        for i in range(LANES):
            index = builder.add(args[2], ir.Constant(args[2].type, i))
            at = builder.load(element(context, builder, signature.args[1], args[1], index))
            rows.append(builder.load(line(signature.args[0], args[0], builder.add(at, args[3])), align=2))
        begin = line(signature.args[4], args[4], args[5])
        for i, row in enumerate(_turned(builder, rows)):
            builder.store(row, builder.gep(begin, [ir.Constant(ir.IntType(64), i)]), align=2)
        return context.get_dummy_value()

    i = types.int64
    return types.void(source, places, i, i, target, i), generate
