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
_I8, _I64 = ir.IntType(8), ir.IntType(64)


def _constant(value: int) -> ir.Constant:
    return ir.Constant(INTS, [value] * LANES)


def _pair(builder: Any, word: Any, shift: int, bits: int, scale: Any, offset: Any) -> Any:
    """The quants at bits ``shift`` and 16 + ``shift`` as a pair of weights, rounded to nearest (ties upwards)."""
    numbers = []
    for at in (shift, 16 + shift):
        quant = builder.and_(builder.lshr(word, _constant(at)), _constant(2**bits - 1))
        weight = fma_ir(builder, builder.uitofp(quant, FLOATS), scale, offset)
        numbers.append(builder.add(builder.bitcast(weight, INTS), _constant(0x8000)))
    low, high = numbers
    return builder.or_(builder.lshr(low, _constant(16)), builder.and_(high, _constant(0xFFFF0000)))


def _make(bits: int) -> Callable[..., None]:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = element(context, builder, signature.args[0], args[0], args[1])
        pair = builder.bitcast(element(context, builder, signature.args[2], args[2], args[3]), _I8.as_pointer())
        target = element(context, builder, signature.args[4], args[4], args[5])
        prefetch(builder, source, LANES * GROUP * bits // 8, AHEAD)
        prefetch(builder, pair, 4 * LANES, AHEAD_SCALES)
        scale, offset = scale_pair(builder, pair)
        for vector in range(DOTS * bits // 8):
            at = builder.gep(source, [ir.Constant(_I64, 64 * vector)])
            word = builder.load(builder.bitcast(at, INTS.as_pointer()), align=1)
            # Inputs 4 j to 4 j + 3; with 4 bits also 16 + 4 j and up, in the high halves of the bytes.
            for half, first in enumerate(range(4 * vector, GROUP, GROUP // 2 if bits == 4 else GROUP)):
                for two in range(2):
                    both = _pair(builder, word, 8 * two + 4 * half, bits, scale, offset)
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
def unfold_tile(bits: int, weights: Any, w_at: int, scales: Any, s_at: int, inputs: int, out: Any, o_at: int) -> None:
    """A 4- or 8-bit tile as bfloat16 pairs [inputs/2, 16, 2] at byte ``o_at`` of out, uint8."""
    for group in range(inputs // GROUP):
        to, pair = o_at + group * (GROUP // 2) * PAIR_BYTES, s_at + group * 2 * LANES
        at = w_at + group * LANES * GROUP * bits // 8
        if bits == 4:
            _unfold_4(weights, at, scales, pair, out, to)
        else:
            _unfold_8(weights, at, scales, pair, out, to)
