"""Products of bfloat16 pairs where the cache is bfloat16, plain products where it is float32, behind one name."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import overload

from isotherm.kernels.cpu.compiled import intrinsic
from isotherm.kernels.cpu.vector import (
    BFLOAT,
    FLOATS,
    INTS,
    LANES,
    element,
    fma_ir,
    has_pair_products,
    lanes,
    spread,
)

_I32 = ir.IntType(32)
_PAIRS = ir.VectorType(BFLOAT, 2 * LANES)


def PAIR(cache: Any) -> int:
    """How many neighbours of a cache are summed together: 2 for bfloat16, 1 for float32; compiled code only."""
    raise TypeError(f"PAIR is compiled code, called with {cache!r}")


@overload(PAIR, strict=False)
def _pair(cache: Any) -> Any:
    if cache.dtype == types.uint16:
        return lambda cache: 2
    return lambda cache: 1


def pair_product(builder: Any, left: Any, right: Any, sums: Any) -> Any:
    """Emit sums + the two products of bfloat16 pairs in each of sixteen lanes."""
    if has_pair_products():
        kind = ir.FunctionType(FLOATS, [FLOATS, _PAIRS, _PAIRS])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512bf16.dpbf16ps.512")
        return builder.call(function, [sums, builder.bitcast(left, _PAIRS), builder.bitcast(right, _PAIRS)])
    sixteen, high = ir.Constant(INTS, [16] * LANES), ir.Constant(INTS, [0xFFFF0000] * LANES)
    for first, second in (
        (builder.shl(left, sixteen), builder.shl(right, sixteen)),
        (builder.and_(left, high), builder.and_(right, high)),
    ):
        sums = fma_ir(builder, builder.bitcast(first, FLOATS), builder.bitcast(second, FLOATS), sums)
    return sums


@intrinsic
def dot(typing_context: Any, scalars: Any, index: Any, array: Any, offset: Any, sums: Any) -> Any:
    """sums + scalars[index] * array[offset : offset + 16] for float32; for bfloat16, scalars and array in pairs.

    With pairs, lane i gains scalars[2 index] * array[offset + 2 i] + scalars[2 index + 1] * array[offset + 2 i + 1].
    """
    paired = array.dtype == types.uint16

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = element(context, builder, signature.args[2], args[2], args[3])
        start = element(context, builder, signature.args[0], args[0], ir.Constant(args[1].type, 0))
        if not paired:
            value = builder.load(builder.gep(start, [args[1]]))
            numbers = builder.load(builder.bitcast(source, FLOATS.as_pointer()), align=4)
            return fma_ir(builder, spread(builder, value, FLOATS), numbers, args[4])
        word = builder.load(builder.gep(builder.bitcast(start, _I32.as_pointer()), [args[1]]), align=2)
        left = spread(builder, word, INTS)
        right = builder.load(builder.bitcast(source, INTS.as_pointer()), align=2)
        return pair_product(builder, left, right, args[4])

    return lanes(scalars, types.intp, array, types.intp, sums), generate
