"""Products of bfloat16 pairs where the cache is bfloat16, plain products where it is float32, behind one name."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import overload

from isotherm.kernels.cpu.compiled import intrinsic, kernel
from isotherm.kernels.cpu.values import put
from isotherm.kernels.cpu.vector import FLOATS, INTS, LANES, element, fma_ir, lanes, spread

_I32 = ir.IntType(32)


class _BFloat(ir.Type):
    """LLVM's bfloat, which llvmlite does not name."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


_PAIRS = ir.VectorType(_BFloat(), 2 * LANES)


def has_pair_products() -> bool:
    """Whether this CPU multiplies bfloat16 pairs and sums them in float32 on 512-bit vectors."""
    return bool(llvm.get_host_cpu_features().get("avx512bf16"))


def PAIR(cache: Any) -> int:
    """How many neighbours of a cache are summed together: 2 for bfloat16, 1 for float32; compiled code only."""
    raise TypeError(f"PAIR is compiled code, called with {cache!r}")


@overload(PAIR, strict=False)
def _pair(cache: Any) -> Any:
    if cache.dtype == types.uint16:
        return lambda cache: 2
    return lambda cache: 1


@kernel
def pack(x: Any, at: int, size: int, out: Any) -> None:
    """Copy float32 numbers to the cache's kind, rounding to bfloat16 where it is that."""
    for i in range(size):
        put(out, i, x[at + i])


@intrinsic
def dot(typing_context: Any, scalars: Any, index: Any, array: Any, offset: Any, sums: Any) -> Any:
    """sums + scalars[index] * array[offset : offset + 16] for float32; for bfloat16, scalars and array in pairs.

    With pairs, lane i gains scalars[2 index] * array[offset + 2 i] + scalars[2 index + 1] * array[offset + 2 i + 1].
    """
    paired = array.dtype == types.uint16
    fast = paired and has_pair_products()

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
        if fast:
            kind = ir.FunctionType(FLOATS, [FLOATS, _PAIRS, _PAIRS])
            name = "llvm.x86.avx512bf16.dpbf16ps.512"
            function = cgutils.get_or_insert_function(builder.module, kind, name)
            return builder.call(function, [args[4], builder.bitcast(left, _PAIRS), builder.bitcast(right, _PAIRS)])
        sixteen, high = ir.Constant(INTS, [16] * LANES), ir.Constant(INTS, [0xFFFF0000] * LANES)
        sums = args[4]
        for first, second in (
            (builder.shl(left, sixteen), builder.shl(right, sixteen)),
            (builder.and_(left, high), builder.and_(right, high)),
        ):
            sums = fma_ir(builder, builder.bitcast(first, FLOATS), builder.bitcast(second, FLOATS), sums)
        return sums

    return lanes(scalars, types.intp, array, types.intp, sums), generate
