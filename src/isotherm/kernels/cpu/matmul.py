"""One linear layer alone, over tiled weights: the network's head."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from isotherm.kernels.cpu import amx
from isotherm.kernels.cpu.aligned import bytes_for
from isotherm.kernels.cpu.arranged import arrange_row
from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.compiled import parallel
from isotherm.kernels.cpu.few_rows import prepare_row, share_tiles
from isotherm.kernels.cpu.many_rows import BLOCK_ROWS, PANEL, STORE, SUMS, share_products
from isotherm.kernels.cpu.tiled_weight import TiledWeight

# A layer alone has no biases and gates nothing: arrays that are never read stand for what it does not have.


@parallel
def _few(
    x: Any, rows: int, inputs: int, layer: Any, data: Any, scales: Any, out: Any, width: int, threads: int
) -> None:
    quants, factors = np.empty(rows * inputs, np.int8), np.empty(rows * inputs // 16, np.float32)
    narrow = np.empty(rows * inputs, np.uint16)
    for row in range(rows):
        prepare_row(layer[0], x, row * inputs, inputs, quants, factors, narrow, row)
    for thread in numba.prange(threads):
        share_tiles(thread, threads, layer, data, scales, factors, quants, factors, narrow, rows, inputs, out, width)


@parallel
def _many(
    x: Any, rows: int, inputs: int, layer: Any, data: Any, scales: Any, out: Any, width: int, threads: int
) -> None:
    room = (rows + BLOCK_ROWS - 1) // BLOCK_ROWS * BLOCK_ROWS
    narrow = bytes_for(room * inputs * 2).view(np.uint16)
    for row in range(rows):
        arrange_row(x, row * inputs, inputs, narrow, row)
    panels = bytes_for(threads * PANEL * inputs).reshape(threads, PANEL * inputs)
    sums = bytes_for(threads * SUMS * 4).view(np.float32).reshape(threads, SUMS)
    for thread in numba.prange(threads):
        amx.begin()
        share_products(
            thread, threads, STORE, layer, data, scales, sums[thread], narrow, rows, inputs, out, narrow, width,
            panels[thread], sums[thread],
        )  # fmt: skip
        amx.end()


def matmul(x: Tensor, weight: TiledWeight, *, matrix_unit: bool) -> Tensor:
    """x [rows, K] of float32 or bfloat16, contiguous, times the transposed weights: float32 [rows, N].

    With the matrix unit activations are rounded to bfloat16; without it to what the weights have: bfloat16, or 8 bits
    in groups of 32.
    """
    out = x.new_empty((x.shape[0], weight.outputs), dtype=torch.float32)
    layer = np.array([weight.bits, 0, 0, -1], np.int64)
    run = _many if matrix_unit else _few
    run(
        as_array(x).reshape(-1), x.shape[0], weight.inputs, layer, weight.data, weight.scales,
        as_array(out).reshape(-1), weight.outputs, numba.get_num_threads(),
    )  # fmt: skip
    return out
