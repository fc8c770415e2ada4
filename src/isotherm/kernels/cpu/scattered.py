"""Writing sixteen lanes to where the cache keeps them: neighbours of a head lie apart there."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from isotherm.kernels.cpu.compiled import intrinsic
from isotherm.kernels.cpu.vector import INTS, LANES, element, lanes, narrowed

_I1, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (1, 16, 32, 64))


@intrinsic
def scatter(typing_context: Any, array: Any, at: Any, stride: Any, value: Any) -> Any:
    """Lanes to a float32 array, ``stride`` elements apart; to bfloat16 (uint16) in pairs, the pairs that far apart."""
    narrow = array.dtype == types.uint16

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, count = (_I32, LANES // 2) if narrow else (ir.FloatType(), LANES)
        units = builder.bitcast(narrowed(builder, args[3]), ir.VectorType(_I32, count)) if narrow else args[3]
        for index in range(count):
            at = builder.add(args[1], builder.mul(args[2], ir.Constant(_I64, index)))
            place = element(context, builder, signature.args[0], args[0], at)
            unit = builder.extract_element(units, ir.Constant(_I32, index))
            builder.store(unit, builder.bitcast(place, kind.as_pointer()), align=2 if narrow else 4)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, lanes), generate


@intrinsic
def weave(typing_context: Any, array: Any, at: Any, value: Any) -> Any:
    """Lanes to a float32 array as neighbours; to bfloat16 (uint16) to every second element from ``at`` on.

    The elements between belong to another row, which another thread may be writing: they are not touched.
    """
    narrow = array.dtype == types.uint16

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = element(context, builder, signature.args[0], args[0], args[1])
        if not narrow:
            builder.store(args[2], builder.bitcast(place, args[2].type.as_pointer()), align=4)
            return context.get_dummy_value()
        halves = builder.bitcast(narrowed(builder, args[2]), ir.VectorType(_I16, LANES))
        words = builder.bitcast(builder.zext(halves, INTS), ir.VectorType(_I16, 2 * LANES))
        pointer = builder.bitcast(place, words.type.as_pointer())
        mask = ir.Constant(ir.VectorType(_I1, 2 * LANES), [1, 0] * LANES)
        kind = ir.FunctionType(ir.VoidType(), [words.type, pointer.type, _I32, mask.type])
        name = f"llvm.masked.store.v{2 * LANES}i16.p0"
        builder.call(
            cgutils.get_or_insert_function(builder.module, kind, name), [words, pointer, ir.Constant(_I32, 2), mask]
        )
        return context.get_dummy_value()

    return types.void(array, types.int64, lanes), generate
