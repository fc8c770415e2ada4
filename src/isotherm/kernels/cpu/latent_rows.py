"""Rows of the cache in compiled code, in every layout; see ``kernels.layouts`` for what lies where.

A store's array says which layout it has: float32 or bfloat16 [pages, rows, D]; bytes [pages, page] with a float32 scale
a row (no number rotated), or with power-of-two scales and a rotated part. One source serves all: the compiler chooses.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from isotherm.base.latent_rows import GROUP
from isotherm.kernels.cpu.bits import as_bits, as_float, narrow
from isotherm.kernels.cpu.compiled import by_types, kernel
from isotherm.kernels.cpu.vector import LANES, load, store

FP8_MAX = 448.0


@kernel
def from_e4m3(code: int) -> Any:
    """The number of a code; the two codes of NaN are not asked for."""
    magnitude = np.uint32(code) & np.uint32(0x7F)
    normal = as_float(np.uint32((magnitude << np.uint32(20)) + np.uint32(120 << 23)))
    value = np.float32(magnitude) * np.float32(2**-9) if magnitude < np.uint32(8) else normal
    return -value if code & 0x80 else value


@kernel
def to_e4m3(value: Any) -> Any:
    """The nearest code, ties to even, magnitudes beyond 448 clipped."""
    bits = as_bits(value)
    sign = (bits >> np.uint32(24)) & np.uint32(0x80)
    size = min(abs(value), np.float32(FP8_MAX))
    if size < np.float32(2**-6):
        return np.uint8(sign | np.uint32(np.rint(size * np.float32(512))))
    rest = as_bits(size)
    odd = (rest >> np.uint32(20)) & np.uint32(1)
    return np.uint8(sign | (((rest + np.uint32(0x7FFFF) + odd) >> np.uint32(20)) - np.uint32(120 << 3)))


@kernel
def scale_bits(largest: Any) -> Any:
    """Bits of the smallest power of two s with max(largest, 1e-4) <= 448 s."""
    bits = as_bits(np.float32(max(largest, np.float32(1e-4)) / np.float32(FP8_MAX)))
    up = np.uint32(1) if bits & np.uint32(0x7FFFFF) else np.uint32(0)
    return np.uint32((bits >> np.uint32(23)) + up)


@kernel
def packed_place(data: Any, row: int, width: int, rotated: int) -> tuple[int, int]:
    """Offsets in a page of a packed row's record and of its scales."""
    plain = width - rotated
    record, scales = plain + 2 * rotated, (plain // GROUP + 7) // 8 * 8
    rows = data.shape[1] // (record + scales)
    return row * record, rows * record + row * scales


@kernel
def _fetch_packed(data: Any, page: int, row: int, width: int, rotated: int, out: Any, at: int) -> None:
    record, scales = packed_place(data, row, width, rotated)
    plain, codes = width - rotated, data[page]
    for group in range(plain // GROUP):
        scale = as_float(np.uint32(np.uint32(codes[scales + group]) << np.uint32(23)))
        for i in range(group * GROUP, (group + 1) * GROUP):
            out[at + i] = from_e4m3(codes[record + i]) * scale
    for i in range(rotated):
        low, high = codes[record + plain + 2 * i], codes[record + plain + 2 * i + 1]
        out[at + plain + i] = as_float(
            np.uint32((np.uint32(high) << np.uint32(24)) | (np.uint32(low) << np.uint32(16)))
        )


@kernel
def _fetch_scaled(data: Any, page: int, row: int, width: int, out: Any, at: int) -> None:
    rows, codes = data.shape[1] // (width + 4), data[page]
    place = rows * width + row * 4
    bits = np.uint32(0)
    for i in range(4):
        bits |= np.uint32(codes[place + i]) << np.uint32(8 * i)
    scale = as_float(np.uint32(bits))
    for i in range(width):
        out[at + i] = from_e4m3(codes[row * width + i]) * scale


@kernel
def _keep_packed(data: Any, page: int, row: int, width: int, rotated: int, values: Any, at: int) -> None:
    record, scales = packed_place(data, row, width, rotated)
    plain, codes = width - rotated, data[page]
    for group in range(plain // GROUP):
        largest = np.float32(0)
        for i in range(group * GROUP, (group + 1) * GROUP):
            rounded = as_float(np.uint32(np.uint32(narrow(values[at + i])) << np.uint32(16)))
            largest = max(largest, abs(rounded))
        exponent = scale_bits(largest)
        codes[scales + group] = np.uint8(exponent)
        # Dividing by a power of two is exact, and so is multiplying by its inverse.
        inverse = as_float(np.uint32((np.uint32(254) - exponent) << np.uint32(23)))
        for i in range(group * GROUP, (group + 1) * GROUP):
            rounded = as_float(np.uint32(np.uint32(narrow(values[at + i])) << np.uint32(16)))
            codes[record + i] = to_e4m3(rounded * inverse)
    for i in range(rotated):
        bits = narrow(values[at + plain + i])
        codes[record + plain + 2 * i] = np.uint8(bits & np.uint16(0xFF))
        codes[record + plain + 2 * i + 1] = np.uint8(bits >> np.uint16(8))


@kernel
def _keep_scaled(data: Any, page: int, row: int, width: int, values: Any, at: int) -> None:
    rows, codes = data.shape[1] // (width + 4), data[page]
    largest = np.float32(0)
    for i in range(width):
        largest = max(largest, abs(values[at + i]))
    scale = np.float32(np.float64(max(largest, np.float32(1e-4))) / FP8_MAX)
    for i in range(width):
        codes[row * width + i] = to_e4m3(np.float32(np.float64(values[at + i]) / np.float64(scale)))
    bits, place = as_bits(scale), rows * width + row * 4
    for i in range(4):
        codes[place + i] = np.uint8((bits >> np.uint32(8 * i)) & np.uint32(0xFF))


@kernel
def _copy(source: Any, first: int, target: Any, to: int, width: int) -> None:
    for i in range(0, width, LANES):
        store(target, to + i, load(source, first + i))


@by_types()
def fetch_row(data: Any, page: Any, row: Any, width: Any, rotated: Any, out: Any, at: Any) -> Any:
    """Read a row into float32 out[at : at + width]."""
    if data.dtype == types.uint8:

        def fetch(data: Any, page: Any, row: Any, width: Any, rotated: Any, out: Any, at: Any) -> None:
            if rotated:
                _fetch_packed(data, page, row, width, rotated, out, at)
            else:
                _fetch_scaled(data, page, row, width, out, at)
    else:

        def fetch(data: Any, page: Any, row: Any, width: Any, rotated: Any, out: Any, at: Any) -> None:
            _copy(data, (page * data.shape[1] + row) * width, out, at, width)

    return fetch


@by_types()
def keep_row(data: Any, page: Any, row: Any, width: Any, rotated: Any, values: Any, at: Any) -> Any:
    """Write a row from float32 values[at : at + width]."""
    if data.dtype == types.uint8:

        def keep(data: Any, page: Any, row: Any, width: Any, rotated: Any, values: Any, at: Any) -> None:
            if rotated:
                _keep_packed(data, page, row, width, rotated, values, at)
            else:
                _keep_scaled(data, page, row, width, values, at)
    else:

        def keep(data: Any, page: Any, row: Any, width: Any, rotated: Any, values: Any, at: Any) -> None:
            _copy(values, at, data, (page * data.shape[1] + row) * width, width)

    return keep
