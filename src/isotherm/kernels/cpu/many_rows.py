"""Linear layers for many rows on the matrix unit: weights become bfloat16 pairs once, then meet all rows.

A thread takes two tiles of outputs at a time and holds their weights near; rows come in blocks of 32. Every row's sums
are made by the same operations in the same order, whatever rows are beside it and however many.
"""

from __future__ import annotations

from typing import Any

from isotherm.kernels.cpu import amx
from isotherm.kernels.cpu.arranged import place_of, store_arranged
from isotherm.kernels.cpu.compiled import kernel
from isotherm.kernels.cpu.quant_tile import GROUP
from isotherm.kernels.cpu.unfold import GROUP_BYTES, unfold_group
from isotherm.kernels.cpu.vector import LANES, add, load, mul, store, swish

STORE, ADD, SWIGLU = 0, 1, 2
"""What happens to a layer's results: written, added to what is there, or gated (the layer holds gates, then ups)."""

BLOCK_ROWS = 32
SUMS = BLOCK_ROWS * 2 * LANES
"""Room for the sums of a block: float32 [32, 32]."""

PANEL = 4 * LANES
"""Bytes of a thread's panel, two unfolded tiles, for each input."""

_ROW = 2 * LANES * 4
"""Bytes of a row of sums."""
_LINE = 4 * LANES
"""Bytes of a row of a tile, of rows or of weights: they lie one after the other."""
_AHEAD, _SLOTS = 2, 4
"""By how many groups unfolding is ahead of multiplying, and how many have room."""


@kernel
def _clear(rows: int) -> None:
    amx.zero(0)
    amx.zero(1)
    if rows > amx.ROWS:
        amx.zero(2)
        amx.zero(3)


@kernel
def _step(narrow: Any, at: int, second: int, rows: int, panel: Any, left: int, right: int) -> None:
    """32 inputs of a block of rows, from elements ``at`` and ``second`` of narrow, times two tiles of panel."""
    amx.load(4, narrow, at, _LINE)
    amx.load(6, panel, left, _LINE)
    amx.multiply(0, 4, 6)
    amx.load(7, panel, right, _LINE)
    amx.multiply(1, 4, 7)
    if rows > amx.ROWS:
        amx.load(5, narrow, second, _LINE)
        amx.multiply(2, 5, 6)
        amx.multiply(3, 5, 7)


@kernel
def _keep(rows: int, sums: Any) -> None:
    amx.store(0, sums, 0, _ROW)
    amx.store(1, sums, LANES, _ROW)
    if rows > amx.ROWS:
        amx.store(2, sums, SUMS // 2, _ROW)
        amx.store(3, sums, SUMS // 2 + LANES, _ROW)


@kernel
def _multiply(narrow: Any, at: int, rows: int, inputs: int, panel: Any, left: int, right: int, sums: Any) -> None:
    """A block of rows from element ``at`` of narrow times two tiles at bytes ``left`` and ``right`` of panel."""
    second = at + amx.ROWS * inputs
    _clear(rows)
    for k in range(0, inputs, amx.DEPTH):
        _step(
            narrow, at + k * amx.ROWS, second + k * amx.ROWS, rows, panel, left + k * _LINE // 2, right + k * _LINE // 2
        )
    _keep(rows, sums)


@kernel
def _multiply_unfolding(
    bits: int, narrow: Any, rows: int, inputs: int, weights: Any, left_w: int, right_w: int, scales: Any, left_s: int,
    right_s: int, panel: Any, sums: Any,
) -> None:  # fmt: skip
    """The only block of rows times two quantised tiles: groups are unfolded a little ahead of their product.

    So the vector units and the matrix unit work at the same time, and what passes between them stays in the first
    cache.
    """
    groups, second = inputs // GROUP, amx.ROWS * inputs
    _clear(rows)
    for group in range(groups + _AHEAD):
        if group < groups:
            slot = group % _SLOTS * 2 * GROUP_BYTES
            unfold_group(bits, weights, left_w, scales, left_s, group, panel, slot)
            unfold_group(bits, weights, right_w, scales, right_s, group, panel, slot + GROUP_BYTES)
        if group >= _AHEAD:
            slot = (group - _AHEAD) % _SLOTS * 2 * GROUP_BYTES
            at = (group - _AHEAD) * amx.ROWS * GROUP
            _step(narrow, at, second + at, rows, panel, slot, slot + GROUP_BYTES)
    _keep(rows, sums)


@kernel
def _finish(
    task: int, sums: Any, rows: int, left: int, right: int, biases: Any, b_at: int, out: Any, activated: Any, at: int,
    width: int,
) -> None:  # fmt: skip
    """Bring a block's sums to their place: ``at`` is the block's first row."""
    for row in range(rows):
        first, second = load(sums, row * 2 * LANES), load(sums, row * 2 * LANES + LANES)
        if b_at >= 0:
            first, second = (
                add(first, load(biases, b_at + left * LANES)),
                add(second, load(biases, b_at + right * LANES)),
            )
        if task == SWIGLU:
            place = place_of(at + row, left * LANES, width // 2)
            store_arranged(activated, place, mul(swish(first), second))
        else:
            place, other = (at + row) * width + left * LANES, (at + row) * width + right * LANES
            if task == ADD:
                first, second = add(first, load(out, place)), add(second, load(out, other))
            store(out, place, first)
            if right != left:
                store(out, other, second)


@kernel
def share_products(
    thread: int, threads: int, task: int, layer: Any, weights: Any, scales: Any, biases: Any, narrow: Any, rows: int,
    inputs: int, out: Any, activated: Any, width: int, panel: Any, sums: Any,
) -> None:  # fmt: skip
    """One thread's part of a layer with ``width`` outputs.

    ``layer`` is as in ``few_rows.share_tiles``; narrow bfloat16 holds arranged rows of ``inputs``, with room up to a
    multiple of 32 (see ``arranged``). STORE and ADD write out (float32 [rows, width]), SWIGLU writes activated
    (arranged rows of width / 2). ``panel`` uint8 [PANEL * inputs] and ``sums`` float32 [SUMS] belong to the thread,
    whose tiles are configured; all begin on a cache line.
    """
    bits, w_at, s_at, b_at = layer[0], layer[1], layer[2], layer[3]
    tiles, size = width // LANES, inputs * LANES * bits // 8
    pairs = tiles // 2 if task == SWIGLU else (tiles + 1) // 2
    second = PANEL // 2 * inputs
    for pair in range(pairs * thread // threads, pairs * (thread + 1) // threads):
        left, right = pair, pair + pairs
        if task != SWIGLU:
            left, right = 2 * pair, min(2 * pair + 1, tiles - 1)
        left_w, right_w = w_at + left * size, w_at + right * size
        left_s, right_s = s_at + left * inputs, s_at + right * inputs
        if bits != 16 and rows <= BLOCK_ROWS:
            _multiply_unfolding(
                bits, narrow, rows, inputs, weights, left_w, right_w, scales, left_s, right_s, panel, sums
            )
            _finish(task, sums, rows, left, right, biases, b_at, out, activated, 0, width)
            continue
        if bits != 16:
            for group in range(inputs // GROUP):
                unfold_group(bits, weights, left_w, scales, left_s, group, panel, group * GROUP_BYTES)
                unfold_group(bits, weights, right_w, scales, right_s, group, panel, second + group * GROUP_BYTES)
        for at in range(0, rows, BLOCK_ROWS):
            count = min(BLOCK_ROWS, rows - at)
            if bits == 16:
                _multiply(narrow, at * inputs, count, inputs, weights, left_w, right_w, sums)
            else:
                _multiply(narrow, at * inputs, count, inputs, panel, 0, second, sums)
            _finish(task, sums, count, left, right, biases, b_at, out, activated, at, width)
