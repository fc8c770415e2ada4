"""bfloat16 in numba: numbers are kept as uint16 and widened or rounded by bit operations that vectorise."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from isotherm.kernels.cpu.compiled import intrinsic, kernel


@intrinsic
def as_float(typing_context: Any, value: Any) -> Any:
    """Reinterpret the bits of a uint32 as float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.uint32), generate


@intrinsic
def as_bits(typing_context: Any, value: Any) -> Any:
    """Reinterpret a float32 as the uint32 with the same bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(32))

    return types.uint32(types.float32), generate


@intrinsic
def half(typing_context: Any, value: Any) -> Any:
    """The float32 with the value of float16 bits in a uint16, exact."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), generate


@kernel
def narrow(value: np.float32) -> np.uint16:
    """float32 to bfloat16 bits, round to nearest even; finite input."""
    bits = as_bits(value)
    return np.uint16(np.uint32(bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))


@kernel
def exp(x: np.float32) -> np.float32:
    """e**x in float32, x clamped to [-87, 88], relative error below 3e-7: ln 2 range reduction, then a polynomial.

    Written out because a call into libm keeps the loop around it from being vectorised.
    """
    x = min(max(x, np.float32(-87.0)), np.float32(88.0))
    n = np.floor(x * np.float32(1.4426950408889634) + np.float32(0.5))
    r = x - n * np.float32(0.693359375)
    r = r - n * np.float32(-2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = p * r * r + r + np.float32(1.0)
    return p * as_float(np.uint32((np.int32(n) + np.int32(127)) << np.int32(23)))
