"""Products of quantised weights and quantised activations, sixteen outputs at a time, emitted as LLVM IR.

Weights: groups of 32 along the input share a scale and an offset, w = d u + m, with u of 4 or 8 bits unsigned.
Activations: groups of 32 share a scale, x = e q, q int8 (as llama.cpp does for the same files). Then

    sum over a group of w x  =  d e (sum of u q)  +  m (e sum of q)

where the first sum is exact integer arithmetic and the last factor is one number a group. Rows
are taken in runs whose sums stay in registers; each row's operations are the same whatever its run, so a row's result
does not depend on its company.

A tile holds sixteen outputs. Of a group it has 32 bytes a lane (8 bits) or 16 (4 bits): vector j, 64 bytes, has inputs
4 j to 4 j + 3 of every lane; with 4 bits the low halves are inputs 4 j and up, the high ones 16 + 4 j and up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils

from isotherm.kernels.cpu.compiled import intrinsic
from isotherm.kernels.cpu.vector import in_runs
from isotherm.kernels.cpu.vector import prefetch as prefetch_line

LANES = 16
GROUP = 32
DOTS = GROUP // 4
LINE = 64
AHEAD = 4096
"""Bytes by which weights are asked for before they are used. The hardware's own prefetch stops at every 4 KiB page and
leaves the arithmetic waiting: 8 rows over 67 MB of weights took 7.3 ms without this and 4.8 ms with it."""
AHEAD_SCALES = AHEAD // 4

_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_F32 = ir.FloatType()
_FLOATS = ir.VectorType(_F32, LANES)
_INTS = ir.VectorType(_I32, LANES)
_HALVES = ir.VectorType(ir.HalfType(), LANES)


def vnni() -> bool:
    """Whether this CPU multiplies and sums four bytes a lane in one instruction on 512-bit vectors."""
    return bool(llvm.get_host_cpu_features().get("avx512vnni"))


def _splat(builder: Any, scalar: Any, kind: ir.VectorType) -> Any:
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_I32, kind.count), [0] * kind.count))


def _call(builder: Any, name: str, result: Any, *args: Any) -> Any:
    signature = ir.FunctionType(result, [a.type for a in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), args)


def _dot(builder: Any, sums: Any, unsigned: Any, signed: Any, fast: bool) -> Any:
    """sums + the four products of unsigned and signed bytes in each of sixteen lanes; exact."""
    if fast:
        return _call(builder, "llvm.x86.avx512.vpdpbusd.512", _INTS, sums, unsigned, signed)
    bytes_ = ir.VectorType(_I8, 4 * LANES)
    wide = ir.VectorType(_I16, 4 * LANES)
    left = builder.zext(builder.bitcast(unsigned, bytes_), wide)
    right = builder.sext(builder.bitcast(signed, bytes_), wide)
    products = builder.mul(left, right)  # at most 255 * 127: no overflow in 16 bits
    undefined = ir.Constant(wide, ir.Undefined)
    for offset in range(4):
        index = ir.Constant(_INTS, [4 * lane + offset for lane in range(LANES)])
        sums = builder.add(sums, builder.sext(builder.shuffle_vector(products, undefined, index), _INTS))
    return sums


def _weights(builder: Any, pointer: Any, bits: int) -> list[Any]:
    """The group's eight vectors of four unsigned bytes a lane, in order of input."""
    loads = [_load(builder, pointer, 64 * j, _INTS, 1) for j in range(DOTS * bits // 8)]
    if bits == 8:
        return loads
    mask = ir.Constant(_INTS, [0x0F0F0F0F] * LANES)
    four = ir.Constant(_INTS, [4] * LANES)
    return [builder.and_(v, mask) for v in loads] + [builder.and_(builder.lshr(v, four), mask) for v in loads]


def _load(builder: Any, pointer: Any, offset: int, kind: Any, align: int) -> Any:
    moved = builder.gep(pointer, [ir.Constant(_I64, offset)])
    return builder.load(builder.bitcast(moved, kind.as_pointer()), align=align)


def scale_pair(builder: Any, pointer: Any) -> tuple[Any, Any]:
    """A group's sixteen scales and sixteen offsets, as float32."""
    scale = builder.fpext(_load(builder, pointer, 0, _HALVES, 2), _FLOATS)
    return scale, builder.fpext(_load(builder, pointer, 2 * LANES, _HALVES, 2), _FLOATS)


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """The address of an array's first byte."""
    return builder.bitcast(context.make_array(kind)(context, builder, array).data, _I8.as_pointer())


def make_tile(bits: int) -> Callable[..., None]:
    """Compile-time kernel of activation rows against one tile of ``bits``-bit weights.

    Called as ``tile(weights, w_at, scales, s_at, quants, factors, rows, inputs, out, o_at, width)``: weights uint8
    from byte ``w_at``; scales uint16 (float16 bits: 16 d, then 16 m, for every group) from element ``s_at``; quants
    int8 [rows, inputs]; factors float32 (e, then e * sum of q, for every group) [rows, inputs / 16]; out float32 from
    element ``o_at``, rows ``width`` apart.
    """
    fast = vnni()

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = {i: _data(context, builder, signature.args[i], args[i]) for i in (0, 2, 4, 5, 8)}
        rows, inputs, width = args[6], args[7], args[10]
        weights = builder.gep(arrays[0], [args[1]])
        scales = builder.gep(arrays[2], [builder.shl(args[3], _int(1))])
        groups = builder.lshr(inputs, _int(5))

        def run(count: int, first: Any) -> None:
            sums = [cgutils.alloca_once(builder, _FLOATS) for _ in range(count)]
            for place in sums:
                builder.store(ir.Constant(_FLOATS, [0.0] * LANES), place)
            quants = builder.gep(arrays[4], [builder.mul(first, inputs)])
            factors = builder.gep(arrays[5], [builder.lshr(builder.mul(first, inputs), _int(2))])
            with cgutils.for_range(builder, groups) as loop:
                group = builder.gep(weights, [builder.mul(loop.index, _int(LANES * GROUP * bits // 8))])
                pair = builder.gep(scales, [builder.mul(loop.index, _int(4 * LANES))])
                _group(builder, bits, fast, group, pair, quants, factors, inputs, loop.index, sums)
            for row, place in enumerate(sums):
                at = builder.add(args[9], builder.mul(width, builder.add(first, _int(row))))
                pointer = builder.gep(arrays[8], [builder.shl(at, _int(2))])
                builder.store(builder.load(place), builder.bitcast(pointer, _FLOATS.as_pointer()), align=4)

        in_runs(builder, rows, run)
        return context.get_dummy_value()

    @intrinsic
    def tile(
        typing_context: Any,
        weights: Any,
        w_at: Any,
        scales: Any,
        s_at: Any,
        quants: Any,
        factors: Any,
        rows: Any,
        inputs: Any,
        out: Any,
        o_at: Any,
        width: Any,
    ) -> Any:
        i = types.int64
        return types.void(weights, i, scales, i, quants, factors, i, i, out, i, i), generate

    return tile


def _group(
    builder: Any, bits: int, fast: bool, group: Any, pair: Any, quants: Any, factors: Any, inputs: Any, at: Any,
    sums: Any,
) -> None:  # fmt: skip
    """One group of 32 inputs: as many rows as there are ``sums`` against the tile's weights."""
    prefetch(builder, group, LANES * GROUP * bits // 8, AHEAD)
    prefetch(builder, pair, 4 * LANES, AHEAD_SCALES)
    vectors = _weights(builder, group, bits)
    scale, offset = scale_pair(builder, pair)
    for row, place in enumerate(sums):
        base = builder.add(builder.mul(inputs, _int(row)), builder.mul(at, _int(GROUP)))
        # A row's factors are two float32 for 32 inputs: a quarter of its int8 bytes.
        factor = builder.gep(factors, [builder.lshr(base, _int(2))])
        total = ir.Constant(_INTS, [0] * LANES)
        for j, vector in enumerate(vectors):
            four = _load(builder, builder.gep(quants, [base]), 4 * j, _I32, 1)
            total = _dot(builder, total, vector, _splat(builder, four, _INTS), fast)
        e = _splat(builder, _load(builder, factor, 0, _F32, 4), _FLOATS)
        s = _splat(builder, _load(builder, factor, 4, _F32, 4), _FLOATS)
        so_far = _fma(builder, builder.sitofp(total, _FLOATS), builder.fmul(scale, e), builder.load(place))
        builder.store(_fma(builder, offset, s, so_far), place)


def prefetch(builder: Any, pointer: Any, size: int, ahead: int) -> None:
    """Ask for ``size`` bytes that lie ``ahead`` bytes after a pointer."""
    for offset in range(0, size, LINE):
        prefetch_line(builder, builder.gep(pointer, [_int(ahead + offset)]))


def _int(value: int) -> ir.Constant:
    return ir.Constant(_I64, value)


def _fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    return _call(builder, f"llvm.fma.v{LANES}f32", _FLOATS, a, b, c)


@intrinsic
def quantise_group(typing_context: Any, x: Any, at: Any, quants: Any, q_at: Any, factors: Any, f_at: Any) -> Any:
    """Round 32 neighbours of x (float32, or bfloat16 as uint16) to int8, with their factors e and e * sum of q.

    e = (largest magnitude) / 127; a group of zeros has e = 0.
    """
    narrow = x.dtype == types.uint16

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = 2 if narrow else 4
        source = builder.gep(_data(context, builder, signature.args[0], args[0]), [builder.mul(args[1], _int(size))])
        target = builder.gep(_data(context, builder, signature.args[2], args[2]), [args[3]])
        factor = builder.gep(_data(context, builder, signature.args[4], args[4]), [builder.mul(args[5], _int(4))])
        parts = [_floats(builder, source, part * LANES * size, narrow) for part in range(2)]
        sizes = [_call(builder, f"llvm.fabs.v{LANES}f32", _FLOATS, part) for part in parts]
        both = _call(builder, f"llvm.maxnum.v{LANES}f32", _FLOATS, *sizes)
        top = _call(builder, f"llvm.vector.reduce.fmax.v{LANES}f32", _F32, both)
        zero = ir.Constant(_F32, 0.0)
        empty = builder.fcmp_ordered("==", top, zero)
        inverse = builder.select(empty, zero, builder.fdiv(ir.Constant(_F32, 127.0), top))
        e = builder.fmul(top, ir.Constant(_F32, 1.0 / 127.0))
        count = ir.Constant(_I32, 0)
        for part, values in enumerate(parts):
            scaled = builder.fmul(values, _splat(builder, inverse, _FLOATS))
            whole = builder.fptosi(_call(builder, f"llvm.rint.v{LANES}f32", _FLOATS, scaled), _INTS)
            count = builder.add(count, _call(builder, f"llvm.vector.reduce.add.v{LANES}i32", _I32, whole))
            small = builder.trunc(whole, ir.VectorType(_I8, LANES))
            place = builder.bitcast(builder.gep(target, [_int(part * LANES)]), small.type.as_pointer())
            builder.store(small, place, align=1)
        out = builder.bitcast(factor, _F32.as_pointer())
        builder.store(e, out)
        builder.store(builder.fmul(e, builder.sitofp(count, _F32)), builder.gep(out, [_int(1)]))
        return context.get_dummy_value()

    i = types.int64
    return types.void(x, i, quants, i, factors, i), generate


def _floats(builder: Any, pointer: Any, offset: int, narrow: bool) -> Any:
    if not narrow:
        return _load(builder, pointer, offset, _FLOATS, 4)
    bits = builder.zext(_load(builder, pointer, offset, ir.VectorType(_I16, LANES), 2), _INTS)
    return builder.bitcast(builder.shl(bits, ir.Constant(_INTS, [16] * LANES)), _FLOATS)
