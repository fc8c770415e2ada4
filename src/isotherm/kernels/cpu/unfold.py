"""Quantised tiles as bfloat16 weights, which the matrix unit multiplies; pairs are in the order of ``arranged``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from isotherm.kernels.cpu.compiled import intrinsic, kernel
from isotherm.kernels.cpu.quant_tile import AHEAD, AHEAD_SCALES, DOTS, GROUP, prefetch, scale_pair
from isotherm.kernels.cpu.vector import FLOATS, INTS, LANES, element, fma_ir

PAIR_BYTES = LANES * 4
"""A pair of inputs of sixteen outputs."""
GROUP_BYTES = GROUP // 2 * PAIR_BYTES
"""An unfolded group, which is a tile of the matrix unit."""
_LIFT = {4: 128.0, 8: 512.0}
_LIFT_BITS = {4: 0x43000000, 8: 0x44000000}
_LIFT_AT = {4: 16, 8: 14}
"""What is added to a quant while it is unfolded, the bits of that as float32, and the bit that counts one there."""

_I8, _I64 = ir.IntType(8), ir.IntType(64)


def _constant(value: int) -> ir.Constant:
    return ir.Constant(INTS, [value] * LANES)


def _number(builder: Any, word: Any, at: int, bits: int, scale: Any, lifted: Any) -> Any:
    """The bits of the weights whose quants start at bit ``at`` of each lane, half a bfloat16 step added.

    128 + u and 512 + u have exact float32 forms whose bits are those of 128 or 512 with u put in below: two
    instructions instead of three for cutting out and converting u. ``lifted`` is the offset without that excess.
    """
    up = _LIFT_AT[bits] - at
    moved = builder.shl(word, _constant(up)) if up > 0 else builder.lshr(word, _constant(-up))
    masked = builder.and_(moved, _constant((2**bits - 1) << _LIFT_AT[bits]))
    number = builder.bitcast(builder.or_(masked, _constant(_LIFT_BITS[bits])), FLOATS)
    weight = fma_ir(builder, number, scale, lifted)
    return builder.add(builder.bitcast(weight, INTS), _constant(0x8000))


def _pair(builder: Any, word: Any, shift: int, bits: int, scale: Any, lifted: Any) -> Any:
    """The quants at bits ``shift`` and 16 + ``shift`` as a pair of weights, rounded to nearest (ties upwards)."""
    low, high = (_number(builder, word, at, bits, scale, lifted) for at in (shift, 16 + shift))
    return builder.or_(builder.lshr(low, _constant(16)), builder.and_(high, _constant(0xFFFF0000)))


def _make(bits: int) -> Callable[..., None]:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = element(context, builder, signature.args[0], args[0], args[1])
        pair = builder.bitcast(element(context, builder, signature.args[2], args[2], args[3]), _I8.as_pointer())
        target = element(context, builder, signature.args[4], args[4], args[5])
        prefetch(builder, source, LANES * GROUP * bits // 8, AHEAD)
        prefetch(builder, pair, 4 * LANES, AHEAD_SCALES)
        scale, offset = scale_pair(builder, pair)
        lifted = fma_ir(builder, ir.Constant(FLOATS, [-_LIFT[bits]] * LANES), scale, offset)
        for vector in range(DOTS * bits // 8):
            at = builder.gep(source, [ir.Constant(_I64, 64 * vector)])
            word = builder.load(builder.bitcast(at, INTS.as_pointer()), align=1)
            # Inputs 4 j to 4 j + 3; with 4 bits also 16 + 4 j and up, in the high halves of the bytes.
            for half, first in enumerate(range(4 * vector, GROUP, GROUP // 2 if bits == 4 else GROUP)):
                for two in range(2):
                    both = _pair(builder, word, 8 * two + 4 * half, bits, scale, lifted)
                    row = ir.Constant(_I64, (first // 2 + two) * PAIR_BYTES)
                    builder.store(both, builder.bitcast(builder.gep(target, [row]), INTS.as_pointer()), align=4)
        return context.get_dummy_value()

    @intrinsic
    def unfold(typing_context: Any, weights: Any, w_at: Any, scales: Any, s_at: Any, out: Any, o_at: Any) -> Any:
        i = types.int64
        return types.void(weights, i, scales, i, out, i), generate

    return unfold


_unfold_4, _unfold_8 = _make(4), _make(8)


@kernel
def unfold_group(bits: int, weights: Any, w_at: int, scales: Any, s_at: int, group: int, out: Any, o_at: int) -> None:
    """One group of the 4- or 8-bit tile at byte ``w_at``, its scales at ``s_at``, as bfloat16 pairs [16, 16, 2].

    They go to byte ``o_at`` of out, uint8.
    """
    at, pair = w_at + group * LANES * GROUP * bits // 8, s_at + group * 2 * LANES
    if bits == 4:
        _unfold_4(weights, at, scales, pair, out, o_at)
    else:
        _unfold_8(weights, at, scales, pair, out, o_at)
