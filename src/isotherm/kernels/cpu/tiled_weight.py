"""Weights laid out in tiles of sixteen outputs, which every kernel here reads: 4 or 8 bits with scales, or bfloat16.

A quantised tile is described in ``quant_tile``. A bfloat16 tile holds, for each pair of inputs in the order of
``arranged``, the pair of every output: [K/2, 16, 2], which suits both the pair products of a vector and the matrix
unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotherm.kernels.cpu.aligned import aligned
from isotherm.kernels.cpu.arranged import swapped
from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.bits import half
from isotherm.kernels.cpu.compiled import parallel
from isotherm.kernels.cpu.quant_tile import GROUP
from isotherm.kernels.cpu.values import put
from isotherm.kernels.cpu.vector import LANES


@dataclass(frozen=True, slots=True)
class TiledWeight:
    """Weights [N, K] as tiles: ``data`` uint8 [N K bits/8], ``scales`` float16 bits [N K / 16] (none for 16 bits)."""

    data: NDArray[np.uint8]
    scales: NDArray[np.uint16]
    outputs: int
    inputs: int
    bits: int


def fits(outputs: int, inputs: int) -> bool:
    """Whether a layer of this size divides into tiles and groups."""
    return outputs % LANES == 0 and inputs % GROUP == 0


def pack(quants: NDArray[np.uint8], scale: NDArray[np.float16], offset: NDArray[np.float16], bits: int) -> TiledWeight:
    """Quantised tiles: quants [N, K] (values below 2**bits), scale and offset [N, K/32]; ``fits(N, K)`` must hold."""
    outputs, inputs = quants.shape
    tiles, groups = outputs // LANES, inputs // GROUP
    fours = quants.reshape(tiles, LANES, groups, GROUP // 4, 4).transpose(0, 2, 3, 1, 4)
    if bits == 4:
        fours = fours[:, :, :4] | (fours[:, :, 4:] << np.uint8(4))
    pairs = np.stack([part.reshape(tiles, LANES, groups).transpose(0, 2, 1) for part in (scale, offset)], axis=2)
    return TiledWeight(
        np.ascontiguousarray(fours).reshape(-1),
        np.ascontiguousarray(pairs).reshape(-1).view(np.uint16),
        outputs,
        inputs,
        bits,
    )


def pack_pairs(weight: Tensor) -> TiledWeight:
    """Tiles of bfloat16 weights [N, K]; ``fits(N, K)`` must hold."""
    outputs, inputs = weight.shape
    ordered = as_array(weight.contiguous())[:, swapped(inputs)]
    pairs = ordered.reshape(outputs // LANES, LANES, inputs // 2, 2).transpose(0, 2, 1, 3)
    data = aligned(weight.numel() * 2, np.uint8)
    data.view(np.uint16).reshape(pairs.shape)[:] = pairs
    return TiledWeight(data, np.empty(0, np.uint16), outputs, inputs, 16)


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


def expand(weight: TiledWeight, dtype: torch.dtype) -> Tensor:
    """Quantised weights as numbers [N, K] of ``dtype``, float32 or bfloat16."""
    out = torch.empty((weight.outputs, weight.inputs), dtype=dtype)
    _expand(weight.data, weight.scales, weight.outputs, weight.inputs, weight.bits, as_array(out).reshape(-1))
    return out
