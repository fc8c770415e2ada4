"""Quantised linear layers: rows are quantised once, then the machine's threads share out the tiles of outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.bits import half
from isotherm.kernels.cpu.compiled import kernel, parallel
from isotherm.kernels.cpu.quant_tile import GROUP, LANES, make_tile, quantise_group
from isotherm.kernels.cpu.values import put

_four_1, _four_2, _four_4, _four_8 = (make_tile(rows, 4) for rows in (1, 2, 4, 8))
_eight_1, _eight_2, _eight_4, _eight_8 = (make_tile(rows, 8) for rows in (1, 2, 4, 8))


@dataclass(frozen=True, slots=True)
class QuantWeight:
    """Weights [N, K] as tiles: ``quants`` uint8 [N K bits/8], ``scales`` float16 bits [N K / 16]."""

    quants: NDArray[np.uint8]
    scales: NDArray[np.uint16]
    outputs: int
    inputs: int
    bits: int


def pack(quants: NDArray[np.uint8], scale: NDArray[np.float16], offset: NDArray[np.float16], bits: int) -> QuantWeight:
    """Tiles from plain arrays: quants [N, K] (values below 2**bits), scale and offset [N, K/32]; N % 16 == 0."""
    outputs, inputs = quants.shape
    tiles, groups = outputs // LANES, inputs // GROUP
    fours = quants.reshape(tiles, LANES, groups, GROUP // 4, 4).transpose(0, 2, 3, 1, 4)
    if bits == 4:
        fours = fours[:, :, :4] | (fours[:, :, 4:] << np.uint8(4))
    pairs = np.stack([part.reshape(tiles, LANES, groups).transpose(0, 2, 1) for part in (scale, offset)], axis=2)
    return QuantWeight(
        np.ascontiguousarray(fours).reshape(-1),
        np.ascontiguousarray(pairs).reshape(-1).view(np.uint16),
        outputs,
        inputs,
        bits,
    )


@kernel
def quantise_row(x: Any, at: int, size: int, quants: Any, factors: Any, row: int) -> None:
    """Quantise x[at : at + size] into row ``row`` of quants int8 [rows, size] and factors float32 [rows, size / 16]."""
    for group in range(size // GROUP):
        base = row * size + group * GROUP
        quantise_group(x, at + group * GROUP, quants, base, factors, base // 16)


@kernel
def tile_rows(
    bits: int, weights: Any, w_at: int, scales: Any, s_at: int, quants: Any, factors: Any, rows: int, inputs: int,
    out: Any, o_at: int, width: int,
) -> None:  # fmt: skip
    """All rows against one tile, in runs of eight, four, two and one so that their sums fit the registers."""
    groups = inputs // GROUP
    row = 0
    while row < rows:
        q_at, to = row * inputs, o_at + row * width
        f_at = q_at // 16
        left = rows - row
        if bits == 4:
            if left >= 8:
                _four_8(weights, w_at, scales, s_at, quants, q_at, inputs, factors, f_at, groups, out, to, width)
                row += 8
            elif left >= 4:
                _four_4(weights, w_at, scales, s_at, quants, q_at, inputs, factors, f_at, groups, out, to, width)
                row += 4
            elif left >= 2:
                _four_2(weights, w_at, scales, s_at, quants, q_at, inputs, factors, f_at, groups, out, to, width)
                row += 2
            else:
                _four_1(weights, w_at, scales, s_at, quants, q_at, inputs, factors, f_at, groups, out, to, width)
                row += 1
        elif left >= 8:
            _eight_8(weights, w_at, scales, s_at, quants, q_at, inputs, factors, f_at, groups, out, to, width)
            row += 8
        elif left >= 4:
            _eight_4(weights, w_at, scales, s_at, quants, q_at, inputs, factors, f_at, groups, out, to, width)
            row += 4
        elif left >= 2:
            _eight_2(weights, w_at, scales, s_at, quants, q_at, inputs, factors, f_at, groups, out, to, width)
            row += 2
        else:
            _eight_1(weights, w_at, scales, s_at, quants, q_at, inputs, factors, f_at, groups, out, to, width)
            row += 1


@kernel
def share_tiles(
    thread: int, threads: int, bits: int, weights: Any, w_at: int, scales: Any, s_at: int, quants: Any, factors: Any,
    rows: int, inputs: int, out: Any, width: int,
) -> None:  # fmt: skip
    """One thread's run of output tiles of a layer with ``width`` outputs."""
    tiles = width // LANES
    bytes_, pairs = inputs * LANES * bits // 8, inputs
    for tile in range(tiles * thread // threads, tiles * (thread + 1) // threads):
        tile_rows(
            bits, weights, w_at + tile * bytes_, scales, s_at + tile * pairs, quants, factors, rows, inputs,
            out, tile * LANES, width,
        )  # fmt: skip


@parallel
def _expand(weights: Any, scales: Any, outputs: int, inputs: int, bits: int, out: Any) -> None:
    groups = inputs // GROUP
    for output in numba.prange(outputs):
        tile, lane = output // LANES, output % LANES
        for group in range(groups):
            pair = (tile * groups + group) * 2 * LANES + lane
            scale, offset = half(scales[pair]), half(scales[pair + LANES])
            base = (tile * groups + group) * LANES * GROUP * bits // 8 + 4 * lane
            for k in range(GROUP):
                step = k // 4 if bits == 8 else k % 16 // 4
                byte = np.int32(weights[base + step * 4 * LANES + k % 4])
                if bits == 4:
                    byte = byte >> (k // 16 * 4) & 15
                put(out, output * inputs + group * GROUP + k, scale * np.float32(byte) + offset)


def expand(weight: QuantWeight, dtype: torch.dtype) -> Tensor:
    """The weights as numbers [N, K] of ``dtype``, float32 or bfloat16."""
    out = torch.empty((weight.outputs, weight.inputs), dtype=dtype)
    _expand(weight.quants, weight.scales, weight.outputs, weight.inputs, weight.bits, as_array(out).reshape(-1))
    return out


@parallel
def _matmul(
    x: Any, rows: int, inputs: int, bits: int, weights: Any, scales: Any, out: Any, width: int, threads: int
) -> None:
    quants, factors = np.empty(rows * inputs, np.int8), np.empty(rows * inputs // 16, np.float32)
    for row in range(rows):
        quantise_row(x, row * inputs, inputs, quants, factors, row)
    for thread in numba.prange(threads):
        share_tiles(thread, threads, bits, weights, 0, scales, 0, quants, factors, rows, inputs, out, width)


def matmul(x: Tensor, weight: QuantWeight) -> Tensor:
    """x [rows, K] of float32 or bfloat16, contiguous, times the transposed weights: float32 [rows, N]."""
    out = x.new_empty((x.shape[0], weight.outputs), dtype=torch.float32)
    _matmul(
        as_array(x).reshape(-1), x.shape[0], weight.inputs, weight.bits, weight.quants, weight.scales,
        as_array(out).reshape(-1), weight.outputs, numba.get_num_threads(),
    )  # fmt: skip
    return out
