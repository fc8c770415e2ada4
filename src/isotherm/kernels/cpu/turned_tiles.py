"""What attention on the matrix unit needs between its products: numbers as tiles of bfloat16, sums back in order."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from isotherm.kernels.cpu.compiled import intrinsic
from isotherm.kernels.cpu.packed_rows import WORDS, WOVEN_BACK, shuffle
from isotherm.kernels.cpu.vector import BFLOAT, FLOATS, INTS, LANES, element, fma_ir, lanes

_I16, _I32, _I64 = (ir.IntType(bits) for bits in (16, 32, 64))


def _both(builder: Any, low: Any, high: Any) -> Any:
    """32 bfloat16 of two vectors of float32."""
    kind = ir.FunctionType(ir.VectorType(BFLOAT, 2 * LANES), [FLOATS, FLOATS])
    name = "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
    return builder.bitcast(builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [high, low]), WORDS)


def _put(context: Any, builder: Any, kind: Any, array: Any, at: Any, value: Any) -> None:
    pointer = builder.bitcast(element(context, builder, kind, array, at), value.type.as_pointer())
    builder.store(value, pointer, align=4)


@intrinsic
def keep_pair(typing_context: Any, array: Any, at: Any, low: Any, high: Any) -> Any:
    """Lanes of two rows to a uint16 array as bfloat16, the two numbers of a lane side by side."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        both = _both(builder, args[2], args[3])
        order = [place for lane in range(LANES) for place in (lane, LANES + lane)]
        _put(context, builder, signature.args[0], args[0], args[1], shuffle(builder, both, both, order))
        return context.get_dummy_value()

    return types.void(array, types.int64, lanes, lanes), generate


@intrinsic
def keep_neighbours(typing_context: Any, array: Any, at: Any, low: Any, high: Any) -> Any:
    """32 neighbours to a uint16 array as bfloat16."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _put(context, builder, signature.args[0], args[0], args[1], _both(builder, args[2], args[3]))
        return context.get_dummy_value()

    return types.void(array, types.int64, lanes, lanes), generate


@intrinsic
def keep_parted(typing_context: Any, array: Any, at: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """64 neighbours to a uint16 array as bfloat16, first the even ones, then the odd ones."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for odd in range(2):
            order = list(range(odd, 2 * LANES, 2))
            low, high = shuffle(builder, args[2], args[3], order), shuffle(builder, args[4], args[5], order)
            at = builder.add(args[1], ir.Constant(_I64, 2 * LANES * odd))
            _put(context, builder, signature.args[0], args[0], at, _both(builder, low, high))
        return context.get_dummy_value()

    return types.void(array, types.int64, lanes, lanes, lanes, lanes), generate


def _exchanged(builder: Any, rows: list[Any], step: int) -> list[Any]:
    """Rows and columns exchanged between blocks of ``step`` of a square of 16 x 16."""
    upper = [j if not j & step else LANES + j - step for j in range(LANES)]
    lower = [j + step if not j & step else LANES + j for j in range(LANES)]
    out = list(rows)
    for row in range(LANES):
        if not row & step:
            a, b = rows[row], rows[row + step]
            out[row], out[row + step] = shuffle(builder, a, b, upper), shuffle(builder, a, b, lower)
    return out


@intrinsic
def turn_tile(typing_context: Any, source: Any, at: Any, apart: Any, target: Any, to: Any) -> Any:
    """A tile of 16 x 16 pairs of bfloat16, its rows ``apart`` elements of source from each other, turned to target."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = []
        for row in range(LANES):
            place = builder.add(args[1], builder.mul(args[2], ir.Constant(_I64, row)))
            pointer = element(context, builder, signature.args[0], args[0], place)
            rows.append(builder.load(builder.bitcast(pointer, INTS.as_pointer()), align=4))
        for step in (1, 2, 4, 8):
            rows = _exchanged(builder, rows, step)
        for row, value in enumerate(rows):
            place = builder.add(args[4], ir.Constant(_I64, 2 * LANES * row))
            _put(context, builder, signature.args[3], args[3], place, value)
        return context.get_dummy_value()

    i = types.int64
    return types.void(source, i, i, target, i), generate


@intrinsic
def write_parted(typing_context: Any, array: Any, at: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Sums of woven vectors, a and b of even numbers, c and d of odd ones, to a float32 array: 64 neighbours."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        even, odd = (shuffle(builder, args[i], args[i + 1], WOVEN_BACK) for i in (2, 4))
        for part in range(4):
            order = [half + 8 * part + place for place in range(8) for half in (0, 2 * LANES)]
            at = builder.add(args[1], ir.Constant(_I64, LANES * part))
            _put(context, builder, signature.args[0], args[0], at, shuffle(builder, even, odd, order))
        return context.get_dummy_value()

    return types.void(array, types.int64, lanes, lanes, lanes, lanes), generate


def _make_write(count: int) -> Any:
    """Sums of a woven vector to a float32 array: the first 16 or all of 32 neighbours."""

    @intrinsic
    def write(typing_context: Any, array: Any, at: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            for first in range(0, count, LANES):
                at = builder.add(args[1], ir.Constant(_I64, first))
                value = shuffle(builder, args[2], args[3], WOVEN_BACK[first : first + LANES])
                _put(context, builder, signature.args[0], args[0], at, value)
            return context.get_dummy_value()

        return types.void(array, types.int64, lanes, lanes), generate

    return write


write_whole, write_half = _make_write(2 * LANES), _make_write(LANES)


@intrinsic
def rotated(typing_context: Any, value: Any, cos: Any, sin: Any) -> Any:
    """value * cos + value with neighbours exchanged in pairs * sin."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        other = shuffle(builder, args[0], args[0], [place ^ 1 for place in range(LANES)])
        return fma_ir(builder, args[0], args[1], builder.fmul(other, args[2]))

    return lanes(value, cos, sin), generate


@intrinsic
def share(typing_context: Any, value: Any) -> Any:
    """2**x, lane by lane, relative error below 1e-4: what is rounded to bfloat16 next needs no more."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask, nearest = ir.Constant(_I16, 0xFFFF), ir.Constant(_I32, 4)

        def call(name: str, *operands: Any) -> Any:
            kind = ir.FunctionType(FLOATS, [operand.type for operand in operands])
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), operands)

        above_floor = ir.Constant(_I32, 1)
        part = call("llvm.x86.avx512.mask.reduce.ps.512", args[0], above_floor, args[0], mask, nearest)
        series = ir.Constant(FLOATS, [0.07802355] * LANES)
        # A cubic fitted to 2**x on [0, 1), its relative error spread evenly.
        for factor in (0.22606663, 0.69583477, 0.99992498):
            series = fma_ir(builder, series, part, ir.Constant(FLOATS, [factor] * LANES))
        return call("llvm.x86.avx512.mask.scalef.ps.512", series, args[0], series, mask, nearest)

    return lanes(value), generate


@intrinsic
def any_above(typing_context: Any, a: Any, b: Any) -> Any:
    """Whether any lane of a is greater than that of b."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(builder.fcmp_ordered(">", *args), _I16)
        return builder.icmp_unsigned("!=", bits, ir.Constant(_I16, 0))

    return types.boolean(a, b), generate
