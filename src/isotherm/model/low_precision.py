"""Numbers of eight and four bits with scales beside them, as checkpoints store them; decoded exactly.

e4m3: sign, four exponent bits (bias 7), three of mantissa, no infinity, one NaN. e2m1: sign and eight magnitudes. e8m0:
a power of two, 2**(byte - 127), 255 is NaN. All decode by table or by exponent, never by a numeric cast.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

FP8_BLOCK = 128
"""Rows and columns of a weight that share a scale."""
FP4_GROUP, NVFP4_GROUP = 32, 16
"""Inputs of a row that share a scale."""
FP8_MAX = 448.0


def _e4m3_table() -> Floats:
    codes = np.arange(256)
    sign, exponent, mantissa = codes >> 7, codes >> 3 & 15, codes & 7
    fraction = np.where(exponent > 0, 8 + mantissa, mantissa)
    values = np.ldexp(fraction.astype(np.float64), np.maximum(exponent, 1) - 10)
    values[codes & 127 == 127] = np.nan
    table: Floats = np.where(sign, -values, values).astype(np.float32)
    return table


_QUIET = np.errstate(over="ignore", invalid="ignore")
"""Absurd scales give infinities, which whoever loads the weights refuses by name."""
E4M3 = _e4m3_table()
"""The value of each code."""
_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
E2M1 = np.array([*_MAGNITUDES, *(-m for m in _MAGNITUDES)], np.float32)
"""The value of each code, sign in the fourth bit."""


@_QUIET
def from_e8m0(codes: Bytes) -> Floats:
    """2**(code - 127)."""
    values = np.ldexp(np.float64(1), codes.astype(np.int64) - 127).astype(np.float32)
    values[codes == 255] = np.nan
    return values


def fp4_values(packed: Bytes) -> Floats:
    """[..., n] bytes to [..., 2 n] values; the low half of a byte comes first."""
    pairs = np.stack((packed & 15, packed >> 4), axis=-1)
    return E2M1[pairs.reshape(*packed.shape[:-1], -1)]


@_QUIET
def fp8_weight(codes: Bytes, scales: Floats) -> Floats:
    """codes [N, K], scales [ceil(N / 128), ceil(K / 128)] -> values [N, K]."""
    rows, columns = codes.shape
    wide = scales.repeat(FP8_BLOCK, 0)[:rows].repeat(FP8_BLOCK, 1)[:, :columns]
    return E4M3[codes] * wide


@_QUIET
def fp4_weight(packed: Bytes, scales: Floats, group: int = FP4_GROUP) -> Floats:
    """packed [N, K / 2], scales [N, K / group] -> values [N, K]."""
    return fp4_values(packed) * scales.repeat(group, -1)


def to_e4m3(values: Floats) -> Bytes:
    """The nearest codes, ties to even, magnitudes beyond 448 clipped; finite input."""
    table = E4M3[:127]
    magnitude = np.minimum(np.abs(values), FP8_MAX)
    upper = np.searchsorted(table, magnitude).clip(max=126)
    lower = np.maximum(upper - 1, 0)
    above, below = table[upper] - magnitude, magnitude - table[lower]
    nearer_below = (below < above) | ((below == above) & (lower % 2 == 0))
    codes = np.where(nearer_below, lower, upper).astype(np.uint8)
    return codes | np.where(np.signbit(values), np.uint8(128), np.uint8(0))


def power_of_two_scale(largest: Floats, top: float, floor: float) -> Floats:
    """The smallest power of two s with max(largest, floor) <= top * s; exact powers stay."""
    mantissa, exponent = np.frexp(np.maximum(largest, np.float32(floor)) / np.float32(top))
    return np.ldexp(np.float32(1), np.where(mantissa == 0.5, exponent - 1, exponent)).astype(np.float32)


def to_e8m0(scales: Floats) -> Bytes:
    """Codes of exact powers of two."""
    return (np.frexp(scales)[1] - 1 + 127).astype(np.uint8)
