"""The chosen experts of many rows on the matrix unit, every weight read once and where it lies.

Rows are gathered by expert, in blocks of 32. Products are transposed, weights times rows: a tile of weights is sixteen
of their rows as they are stored, and a block's rows are what becomes pairs, once for all outputs. The inner numbers
come out as pairs of the second product. Reading weights is the cost: while one tile is multiplied, the next is asked
for. Blocks are shared among threads in the first half and outputs in the second, where a row's experts are added in
their order: results depend neither on the threads nor on the rows beside.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from isotherm.kernels.cpu import amx
from isotherm.kernels.cpu.aligned import bytes_for
from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.compiled import kernel, parallel
from isotherm.kernels.cpu.square import transpose
from isotherm.kernels.cpu.vector import LANES, add, ask, larger, load, mul, smaller, splat, store, store_pairs, swish

TILE = LANES * LANES
"""Sums of a tile."""
UNIT = 2 * LANES
"""Rows of a block, and outputs that are summed side by side."""

_LINE = 4 * LANES
"""Bytes of a row of a tile of pairs or of sums."""
_LINES_OF_SUMS = np.arange(0, TILE, LANES)
_FITS = amx.has_amx()


@kernel
def _place(row: int, weight: Any, expert: int, next_of: Any, rows: Any, weights: Any) -> None:
    rows[next_of[expert]], weights[next_of[expert]] = row, weight
    next_of[expert] += 1


@kernel
def _group(ids: Any, weights: Any, experts: int) -> tuple[Any, Any, Any]:
    """Blocks [B, 3]: expert, first place, rows; and the row and routing weight of every place.

    An expert's places are a multiple of sixteen: a row stands in for those that are none. The last expert has all rows.
    """
    counts = np.zeros(experts, np.int64)
    for expert in ids.flat:
        counts[expert] += 1
    counts[experts - 1] = len(ids)
    begins = np.zeros(experts + 1, np.int64)
    for expert in range(experts):
        begins[expert + 1] = begins[expert] + (counts[expert] + LANES - 1) // LANES * LANES
    rows, scales = np.zeros(begins[experts], np.int64), np.zeros(begins[experts], np.float32)
    next_of = begins.copy()
    for row in range(len(ids)):
        for place in range(ids.shape[1]):
            _place(row, weights[row, place], ids[row, place], next_of, rows, scales)
        _place(row, np.float32(1), experts - 1, next_of, rows, scales)
    blocks, block = np.empty((begins[experts] // LANES, 3), np.int64), 0
    for expert in range(experts):
        for at in range(0, counts[expert], UNIT):
            blocks[block, 0], blocks[block, 1] = expert, begins[expert] + at
            blocks[block, 2] = min(counts[expert] - at, UNIT)
            block += 1
    return blocks[:block], rows, scales


@kernel
def _products(
    weights: Any, left: int, right: int, next_left: int, next_right: int, inputs: int, pairs: Any, at: int, rows: int,
    sums: Any,
) -> None:  # fmt: skip
    """Sixteen weights' rows from elements ``left`` and ``right`` on, times up to 32 rows from element ``at`` of pairs.

    sums float32 [row half, left or right, 16 outputs, 16 rows]; ``next_left`` and ``next_right`` are asked for.
    """
    many, second = rows > LANES, at + LANES * inputs
    amx.zero(0)
    amx.zero(1)
    if many:
        amx.zero(2)
        amx.zero(3)
    for k in range(0, inputs, amx.DEPTH):
        ask(weights, next_left + k * LANES, amx.DEPTH * LANES)
        ask(weights, next_right + k * LANES, amx.DEPTH * LANES)
        amx.load(6, pairs, at + k * LANES, _LINE)
        amx.load(4, weights, left + k, 2 * inputs)
        amx.multiply(0, 4, 6)
        amx.load(5, weights, right + k, 2 * inputs)
        amx.multiply(1, 5, 6)
        if many:
            amx.load(7, pairs, second + k * LANES, _LINE)
            amx.multiply(2, 4, 7)
            amx.multiply(3, 5, 7)
    amx.store(0, sums, 0, _LINE)
    amx.store(1, sums, TILE, _LINE)
    if many:
        amx.store(2, sums, 2 * TILE, _LINE)
        amx.store(3, sums, 3 * TILE, _LINE)


@kernel
def _gated(sums: Any, at: int, limit: Any, scale: Any) -> Any:
    """SwiGLU with both sides limited, of one output for sixteen rows; the gates' tile is before the ups'."""
    top, bottom = splat(limit), splat(-limit)
    up = larger(bottom, smaller(top, load(sums, at + TILE)))
    return mul(mul(swish(smaller(top, load(sums, at))), up), scale)


@kernel
def _inner(
    block: int, blocks: Any, x: Any, places: Any, scales: Any, gate_up: Any, channels: int, inner: int, limit: Any,
    hidden: Any, pairs: Any, sums: Any,
) -> None:  # fmt: skip
    """A block's inner numbers as pairs: hidden bfloat16 [inner / 2, 16, 2] for each sixteen places."""
    expert, first, rows = blocks[block, 0], blocks[block, 1], blocks[block, 2]
    for half in range(0, rows, LANES):
        for c in range(0, channels, UNIT):
            transpose(x, places, first + half, c, pairs, half * channels + c * LANES)
    start, size = expert * 2 * inner * channels, inner * channels
    following = blocks[min(block + 1, len(blocks) - 1), 0] * 2 * size
    for o in range(0, inner, LANES):
        left = start + o * channels
        ahead = left + LANES * channels if o + LANES < inner else following
        _products(gate_up, left, left + size, ahead, ahead + size, channels, pairs, 0, rows, sums)
        for half in range(0, rows, LANES):
            scale, at = load(scales, first + half), half * 2 * LANES
            for i in range(0, LANES, 2):
                even, odd = _gated(sums, at + i * LANES, limit, scale), _gated(sums, at + (i + 1) * LANES, limit, scale)
                store_pairs(hidden, (first + half) * inner + (o + i) * LANES, even, odd)


@kernel
def _outer(
    block: int, blocks: Any, places: Any, hidden: Any, down: Any, channels: int, inner: int, begin: int, end: int,
    out: Any, sums: Any, square: Any,
) -> None:  # fmt: skip
    """Add a block's outputs from ``begin`` to ``end`` to those of its rows."""
    expert, first, rows = blocks[block, 0], blocks[block, 1], blocks[block, 2]
    following = (blocks[min(block + 1, len(blocks) - 1), 0] * channels + begin) * inner
    for o in range(begin, end, UNIT):
        left = (expert * channels + o) * inner
        right, ahead = left + LANES * inner, left + UNIT * inner if o + UNIT < end else following
        _products(down, left, right, ahead, ahead + LANES * inner, inner, hidden, first * inner, rows, sums)
        for tile in range((rows + LANES - 1) // LANES * 2):
            half = tile // 2 * LANES
            transpose(sums, _LINES_OF_SUMS, 0, tile * TILE, square, 0)
            for row in range(min(rows - half, LANES)):
                at = places[first + half + row] + o + tile % 2 * LANES
                store(out, at, add(load(out, at), load(square, row * LANES)))


@parallel
def _mix(
    x: Any, ids: Any, weights: Any, gate_up: Any, down: Any, experts: int, channels: int, inner: int, limit: Any,
    out: Any, threads: int,
) -> None:  # fmt: skip
    blocks, places, scales = _group(ids, weights, experts)
    places *= channels
    hidden = bytes_for(2 * len(places) * inner).view(np.uint16)
    for thread in numba.prange(threads):
        amx.begin()
        pairs = bytes_for(2 * UNIT * channels).view(np.uint16)
        sums = bytes_for(4 * 4 * TILE).view(np.float32)
        for block in range(len(blocks) * thread // threads, len(blocks) * (thread + 1) // threads):
            _inner(block, blocks, x, places, scales, gate_up, channels, inner, limit, hidden, pairs, sums)
        amx.end()
    units = channels // UNIT
    for thread in numba.prange(threads):
        amx.begin()
        sums, square = bytes_for(4 * 4 * TILE).view(np.float32), bytes_for(4 * TILE).view(np.float32)
        begin, end = units * thread // threads * UNIT, units * (thread + 1) // threads * UNIT
        if begin < end:
            for block in range(len(blocks)):
                _outer(block, blocks, places, hidden, down, channels, inner, begin, end, out, sums, square)
        amx.end()


def fits(down: Tensor) -> bool:
    """Whether this CPU and these weights [E, C, I] suit ``mix``."""
    return _FITS and down.dtype == torch.bfloat16 and not (down.shape[1] % UNIT or down.shape[2] % UNIT)


def mix(x: Tensor, ids: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor, limit: float) -> Tensor:
    """See ``reference.experts.mix``; ``fits(down)`` must hold."""
    out = torch.zeros(x.shape)
    _mix(
        as_array(x).reshape(-1), as_array(ids), as_array(weights), as_array(gate_up).reshape(-1),
        as_array(down).reshape(-1), len(down), x.shape[1], down.shape[2], np.float32(limit),
        as_array(out).reshape(-1), numba.get_num_threads(),
    )  # fmt: skip
    return out
