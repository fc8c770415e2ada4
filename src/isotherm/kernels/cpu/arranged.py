"""Rows of activations in the order and the places that the tiles of weights expect.

Of every four neighbouring inputs the middle two change places, which the byte order of quantised tiles makes free for
the weights. For the matrix unit sixteen rows by 32 inputs lie together: it reads whole tiles from one run of memory,
where rows far apart would leave the processor's own prefetching helpless.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from isotherm.kernels.cpu.compiled import intrinsic, kernel
from isotherm.kernels.cpu.quant_tile import GROUP
from isotherm.kernels.cpu.vector import INTS, LANES, element, lanes, load, narrowed

ROWS = 16
"""Rows that lie together."""
_HALVES = ir.VectorType(ir.IntType(16), LANES)


def swapped(count: int) -> list[int]:
    """Where each of ``count`` inputs in the arranged order comes from."""
    return [4 * (i // 4) + (0, 2, 1, 3)[i % 4] for i in range(count)]


@intrinsic
def store_arranged(typing_context: Any, narrow: Any, at: Any, value: Any) -> Any:
    """Write sixteen lanes as bfloat16 in the arranged order to narrow, uint16."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        halves = builder.bitcast(narrowed(builder, args[2]), _HALVES)
        index = ir.Constant(INTS, swapped(LANES))
        order = builder.shuffle_vector(halves, ir.Constant(_HALVES, ir.Undefined), index)
        place = element(context, builder, signature.args[0], args[0], args[1])
        builder.store(order, builder.bitcast(place, _HALVES.as_pointer()), align=2)
        return context.get_dummy_value()

    return types.void(narrow, types.int64, lanes), generate


@kernel
def place_of(row: int, column: int, inputs: int) -> int:
    """Where a number lies, for ``column`` a multiple of 16: tiles of [16, 32] in the order of inputs, then of rows."""
    tile = row // ROWS * (inputs // GROUP) + column // GROUP
    return tile * ROWS * GROUP + row % ROWS * GROUP + column % GROUP


@kernel
def arrange_row(x: Any, at: int, inputs: int, narrow: Any, row: int) -> None:
    """Bring float32 or bfloat16 x[at : at + inputs] to its places in narrow, uint16, as row ``row``."""
    for column in range(0, inputs, LANES):
        store_arranged(narrow, place_of(row, column, inputs), load(x, at + column))
