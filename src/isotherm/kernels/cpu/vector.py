"""Sixteen float32 lanes as a numba value, so that a kernel says which loop is the vector and what stays in registers.

LLVM splits the lanes to the machine's width (one AVX-512 register, two AVX, four NEON), so one source serves
every CPU. Offsets count elements from the start of a C-contiguous array, whatever its dimensions; nothing is
bounds-checked.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import models, register_model

from isotherm.kernels.cpu.compiled import intrinsic

LANES = 16

_F32 = ir.FloatType()
_I32 = ir.IntType(32)
FLOATS = ir.VectorType(_F32, LANES)
INTS = ir.VectorType(_I32, LANES)


class _BFloat(ir.Type):
    """LLVM's bfloat, which llvmlite does not name."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


BFLOAT = _BFloat()


def has_pair_products() -> bool:
    """Whether this CPU has bfloat16 on 512-bit vectors: products of pairs summed in float32, and rounding to it."""
    return bool(llvm.get_host_cpu_features().get("avx512bf16"))


class _Lanes(types.Type):
    """The numba type of sixteen float32 lanes."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


lanes = _Lanes()


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, FLOATS)


def _constant(value: int) -> ir.Constant:
    return ir.Constant(INTS, [value] * LANES)


def spread(builder: Any, scalar: Any, kind: ir.VectorType) -> Any:
    """Emit a vector of equal lanes."""
    single = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(_I32, 0))
    return builder.shuffle_vector(single, ir.Constant(kind, ir.Undefined), ir.Constant(INTS, [0] * LANES))


def element(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    """Emit the address of an array's element."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(data, [offset])


def in_runs(builder: Any, rows: Any, emit: Any) -> None:
    """Emit ``emit(count, first row)`` for runs of eight, four, two and one that together cover ``rows``."""
    kind = rows.type
    with cgutils.for_range(builder, builder.lshr(rows, ir.Constant(kind, 3))) as loop:
        emit(8, builder.shl(loop.index, ir.Constant(kind, 3)))
    for count in (4, 2, 1):
        some = builder.and_(rows, ir.Constant(kind, count))
        with builder.if_then(builder.icmp_signed("!=", some, ir.Constant(kind, 0))):
            emit(count, builder.and_(rows, ir.Constant(kind, -2 * count)))


def fma_ir(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Emit a * b + c on lanes, rounded once."""
    signature = ir.FunctionType(FLOATS, [FLOATS] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, f"llvm.fma.v{LANES}f32"), [a, b, c])


def _floats_call(builder: Any, name: str, *operands: Any) -> Any:
    kind = ir.FunctionType(FLOATS, [FLOATS] * len(operands))
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f32"), operands)


def _exp(builder: Any, value: Any) -> Any:
    """Emit e**x, relative error below 3e-7, 0 below -87, e**87 above 87: ln 2 range reduction, a polynomial."""

    def constant(number: float) -> ir.Constant:
        return ir.Constant(FLOATS, [number] * LANES)

    x = _floats_call(builder, "minnum", _floats_call(builder, "maxnum", value, constant(-87.0)), constant(87.0))
    n = _floats_call(builder, "rint", builder.fmul(x, constant(1.4426950408889634)))
    r = fma_ir(builder, n, constant(-0.693359375), x)
    r = fma_ir(builder, n, constant(2.12194440e-4), r)
    series = constant(1.9875691500e-4)
    for factor in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1.0, 1.0):
        series = fma_ir(builder, series, r, constant(factor))
    power = builder.shl(builder.add(builder.fptosi(n, INTS), _constant(127)), _constant(23))
    some = builder.fcmp_ordered(">", value, constant(-87.0))
    return builder.select(some, builder.fmul(series, builder.bitcast(power, FLOATS)), constant(0.0))


@intrinsic
def splat(typing_context: Any, value: Any) -> Any:
    """All lanes equal to a float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return spread(builder, args[0], FLOATS)

    return lanes(types.float32), generate


@intrinsic
def load(typing_context: Any, array: Any, offset: Any) -> Any:
    """Sixteen neighbours of a float32 array, or of a uint16 array that holds bfloat16."""
    narrow = array.dtype == types.uint16

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = element(context, builder, signature.args[0], args[0], args[1])
        if not narrow:
            return builder.load(builder.bitcast(pointer, FLOATS.as_pointer()), align=4)
        halves = ir.VectorType(ir.IntType(16), LANES)
        bits = builder.load(builder.bitcast(pointer, halves.as_pointer()), align=2)
        return builder.bitcast(builder.shl(builder.zext(bits, INTS), _constant(16)), FLOATS)

    return lanes(array, types.intp), generate


def narrowed(builder: Any, value: Any) -> Any:
    """Emit lanes rounded to bfloat16, nearest even."""
    if has_pair_products():
        kind = ir.FunctionType(ir.VectorType(BFLOAT, LANES), [FLOATS])
        name = "llvm.x86.avx512bf16.cvtneps2bf16.512"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [value])
    bits = builder.bitcast(value, INTS)
    odd = builder.and_(builder.lshr(bits, _constant(16)), _constant(1))
    rounded = builder.lshr(builder.add(builder.add(bits, _constant(0x7FFF)), odd), _constant(16))
    return builder.trunc(rounded, ir.VectorType(ir.IntType(16), LANES))


@intrinsic
def store(typing_context: Any, array: Any, offset: Any, value: Any) -> Any:
    """Write lanes to a float32 array, or rounded to nearest even to a uint16 array of bfloat16."""
    narrow = array.dtype == types.uint16

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = element(context, builder, signature.args[0], args[0], args[1])
        value = args[2]
        if narrow:
            value = narrowed(builder, value)
        builder.store(value, builder.bitcast(pointer, value.type.as_pointer()), align=2 if narrow else 4)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), generate


@intrinsic
def store_pairs(typing_context: Any, array: Any, offset: Any, even: Any, odd: Any) -> Any:
    """Write even[0], odd[0], even[1] ... to a uint16 array of bfloat16, rounded to nearest even."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        halves = ir.VectorType(ir.IntType(16), LANES)
        low, high = (builder.zext(builder.bitcast(narrowed(builder, each), halves), INTS) for each in args[2:])
        pairs = builder.or_(low, builder.shl(high, _constant(16)))
        pointer = element(context, builder, signature.args[0], args[0], args[1])
        builder.store(pairs, builder.bitcast(pointer, INTS.as_pointer()), align=2)
        return context.get_dummy_value()

    return types.void(array, types.intp, even, odd), generate


def prefetch(builder: Any, pointer: Any) -> None:
    """Emit the wish to have a line of memory in the second cache."""
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32])
    flags = [ir.Constant(_I32, flag) for flag in (0, 2, 1)]
    builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8"), [pointer, *flags])


@intrinsic
def ask(typing_context: Any, array: Any, offset: Any, count: Any) -> Any:
    """Ask for ``count`` elements before they are used."""
    step = 64 // (array.dtype.bitwidth // 8)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        start, zero = element(context, builder, signature.args[0], args[0], args[1]), ir.Constant(args[2].type, 0)
        with cgutils.for_range_slice(builder, zero, args[2], ir.Constant(args[2].type, step)) as (at, _):
            prefetch(builder, builder.bitcast(builder.gep(start, [at]), ir.IntType(8).as_pointer()))
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


@intrinsic
def fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, lane by lane, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return fma_ir(builder, *args)

    return lanes(a, b, c), generate


@intrinsic
def add(typing_context: Any, a: Any, b: Any) -> Any:
    """a + b, lane by lane."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(*args)

    return lanes(a, b), generate


@intrinsic
def mul(typing_context: Any, a: Any, b: Any) -> Any:
    """a * b, lane by lane."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fmul(*args)

    return lanes(a, b), generate


@intrinsic
def maximum(typing_context: Any, a: Any, b: Any) -> Any:
    """The larger of a and b, lane by lane; NaN if either is."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _floats_call(builder, "maximum", *args)

    return lanes(a, b), generate


@intrinsic
def keep(typing_context: Any, value: Any, count: Any, other: Any) -> Any:
    """The first ``count`` lanes of value, and the rest of other."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        count = spread(builder, builder.trunc(args[1], _I32), INTS)
        inside = builder.icmp_signed("<", ir.Constant(INTS, list(range(LANES))), count)
        return builder.select(inside, args[0], args[2])

    return lanes(value, types.int64, other), generate


@intrinsic
def exponential(typing_context: Any, value: Any) -> Any:
    """e**x, lane by lane; see ``_exp``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _exp(builder, args[0])

    return lanes(value), generate


@intrinsic
def larger(typing_context: Any, a: Any, b: Any) -> Any:
    """The larger of a and b, lane by lane; b where either is NaN, which spares two instructions of ``maximum``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return lanes(a, b), generate


@intrinsic
def smaller(typing_context: Any, a: Any, b: Any) -> Any:
    """The smaller of a and b, lane by lane; b where either is NaN."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", *args), *args)

    return lanes(a, b), generate


def _power_of_two(builder: Any, value: Any) -> Any:
    whole = _floats_call(builder, "rint", value)
    part = builder.fsub(value, whole)
    series = ir.Constant(FLOATS, [1.3333558e-3] * LANES)
    # Taylor's terms of 2**x for |x| <= 1/2: powers of ln 2 over factorials.
    for factor in (9.6181291e-3, 5.5504109e-2, 2.4022651e-1, 6.9314718e-1, 1.0):
        series = fma_ir(builder, series, part, ir.Constant(FLOATS, [factor] * LANES))
    mask = ir.Constant(ir.IntType(16), 0xFFFF)
    kind = ir.FunctionType(FLOATS, [FLOATS, FLOATS, FLOATS, mask.type, _I32])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.mask.scalef.ps.512")
    nearest = ir.Constant(_I32, 4)
    return builder.call(function, [series, whole, series, mask, nearest])


@intrinsic
def power_of_two(typing_context: Any, value: Any) -> Any:
    """2**x, lane by lane, relative error below 3e-6, for CPUs with AVX-512: its ``scalef`` ends in 0 by itself."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _power_of_two(builder, args[0])

    return lanes(value), generate


@intrinsic
def swish(typing_context: Any, value: Any) -> Any:
    """x / (1 + e**-x), lane by lane, relative error below 1e-5, for CPUs with AVX-512.

    The reciprocal is the CPU's estimate, improved once (Newton): dividing takes as long as all the rest.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def constant(number: float) -> ir.Constant:
            return ir.Constant(FLOATS, [number] * LANES)

        power = builder.fmul(args[0], constant(-1.4426950408889634))
        small = builder.fcmp_ordered("<", power, constant(126.0))
        below = builder.fadd(constant(1.0), _power_of_two(builder, builder.select(small, power, constant(126.0))))
        mask = ir.Constant(ir.IntType(16), 0xFFFF)
        kind = ir.FunctionType(FLOATS, [FLOATS, FLOATS, mask.type])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.rcp14.ps.512")
        estimate = builder.call(function, [below, below, mask])
        error = fma_ir(builder, builder.fneg(below), estimate, constant(2.0))
        return builder.fmul(args[0], builder.fmul(estimate, error))

    return lanes(value), generate


@intrinsic
def sigmoid(typing_context: Any, value: Any) -> Any:
    """1 / (1 + e**-x), lane by lane, relative error below 1e-6."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        one = ir.Constant(FLOATS, [1.0] * LANES)
        return builder.fdiv(one, builder.fadd(one, _exp(builder, builder.fneg(args[0]))))

    return lanes(value), generate


@intrinsic
def highest(typing_context: Any, value: Any) -> Any:
    """The largest lane; NaN if any is."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_F32, [FLOATS])
        name = f"llvm.vector.reduce.fmaximum.v{LANES}f32"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)

    return types.float32(value), generate


def tree_sum(builder: Any, part: Any) -> Any:
    """Emit the sum of all lanes, as a tree (the order is fixed)."""
    width = LANES
    while width > 1:
        width //= 2
        undefined = ir.Constant(part.type, ir.Undefined)
        index = ir.VectorType(_I32, width)
        low = builder.shuffle_vector(part, undefined, ir.Constant(index, list(range(width))))
        high = builder.shuffle_vector(part, undefined, ir.Constant(index, list(range(width, 2 * width))))
        part = builder.fadd(low, high)
    return builder.extract_element(part, ir.Constant(_I32, 0))


@intrinsic
def total(typing_context: Any, value: Any) -> Any:
    """The sum of all lanes; see ``tree_sum``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return tree_sum(builder, args[0])

    return types.float32(value), generate
