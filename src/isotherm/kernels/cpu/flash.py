"""Attention on the matrix unit, straight from the cache's blocks (online softmax: Milakov & Gimelshein 2018;
tiled as in Dao 2022).

A task is 32 neighbouring rows of one sequence and one query head, or the heads of a group of one row that decodes:
then reading keys and values is the cost, and the heads share it. The cache's layouts are what the unit multiplies: a
block's keys are [E/2, 32, 2], its values [16, E, 2]. Positions are taken in runs of four blocks counted from the
sequence's start, and a position that a row may not see adds exact zeros to it: a row's result depends on what it sees
alone, however its prompt was cut into chunks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isotherm.base.block import BLOCK_SIZE
from isotherm.kernels.cpu import amx
from isotherm.kernels.cpu.bits import exp
from isotherm.kernels.cpu.compiled import kernel
from isotherm.kernels.cpu.vector import (
    LANES,
    add,
    ask,
    fma,
    highest,
    keep,
    larger,
    load,
    mul,
    power_of_two,
    splat,
    store,
    total,
)

ROWS = 32
RUN = 4 * BLOCK_SIZE
"""Positions whose scores are made before their softmax: scores and shares of 32 rows stay in the first cache."""
LOWEST = np.float32(-3.0e38)
LN_2 = np.float32(0.6931472)

assert BLOCK_SIZE == amx.DEPTH, "a block is one step of the product of shares and values"


@kernel
def _scores(query: Any, size: int, rows: int, keys: Any, base: int, scores: Any, column: int) -> None:
    """scores[:, column : column + 32] = q . k; query bfloat16 [32, E], scores float32 [32, RUN]."""
    stride, row, many = 4 * BLOCK_SIZE, 4 * RUN, rows > amx.ROWS
    amx.zero(0)
    amx.zero(1)
    if many:
        amx.zero(2)
        amx.zero(3)
    for e in range(0, size, amx.DEPTH):
        at = base + e * BLOCK_SIZE
        amx.load(4, query, e, 2 * size)
        amx.load(6, keys, at, stride)
        amx.multiply(0, 4, 6)
        amx.load(7, keys, at + 2 * LANES, stride)
        amx.multiply(1, 4, 7)
        if many:
            amx.load(5, query, amx.ROWS * size + e, 2 * size)
            amx.multiply(2, 5, 6)
            amx.multiply(3, 5, 7)
    amx.store(0, scores, column, row)
    amx.store(1, scores, column + LANES, row)
    if many:
        amx.store(2, scores, amx.ROWS * RUN + column, row)
        amx.store(3, scores, amx.ROWS * RUN + column + LANES, row)


@kernel
def _share(scores: Any, row: int, width: int, count: int, scale: float, tops: Any, masses: Any, shares: Any) -> Any:
    """Scores of a row to 2**(scale (score - top)) in bfloat16, zero from ``count`` on; returns what older sums keep."""
    at, zero = row * RUN, splat(np.float32(0))
    whole = max(0, min(count, width)) // LANES * LANES
    partial = 0 < count - whole < LANES
    peak, lowest = splat(tops[row]), splat(LOWEST)
    for c in range(0, whole, LANES):
        peak = larger(load(scores, at + c), peak)
    if partial:
        peak = larger(keep(load(scores, at + whole), count - whole, lowest), peak)
    top = highest(peak)
    offset, factor, mass = splat(-top * scale), splat(scale), zero
    for c in range(0, whole, LANES):
        part = power_of_two(fma(load(scores, at + c), factor, offset))
        mass = add(mass, part)
        store(shares, at + c, part)
    if partial:
        part = keep(power_of_two(fma(load(scores, at + whole), factor, offset)), count - whole, zero)
        mass = add(mass, part)
        store(shares, at + whole, part)
        whole += LANES
    for c in range(whole, width, LANES):
        store(shares, at + c, zero)
    kept = np.float32(1)
    if top > tops[row]:
        kept = exp((tops[row] - top) * (scale * LN_2))
        tops[row] = top
    masses[row] = masses[row] * kept + total(mass)
    return kept


@kernel
def _accumulate(
    shares: Any, run: int, size: int, rows: int, values: Any, table: Any, base: int, step: int, blocks: int, sums: Any
) -> None:
    """sums float32 [32, E] += shares . values over a run of ``blocks`` blocks."""
    stride, row, many = 4 * size, 4 * size, rows > amx.ROWS
    for e in range(0, size, 2 * LANES):
        amx.load(0, sums, e, row)
        amx.load(1, sums, e + LANES, row)
        if many:
            amx.load(2, sums, amx.ROWS * size + e, row)
            amx.load(3, sums, amx.ROWS * size + e + LANES, row)
        for block in range(blocks):
            at = np.int64(table[run + block]) * step + base + 2 * e
            amx.load(4, shares, block * BLOCK_SIZE, 2 * RUN)
            amx.load(6, values, at, stride)
            amx.multiply(0, 4, 6)
            amx.load(7, values, at + 2 * LANES, stride)
            amx.multiply(1, 4, 7)
            if many:
                amx.load(5, shares, amx.ROWS * RUN + block * BLOCK_SIZE, 2 * RUN)
                amx.multiply(2, 5, 6)
                amx.multiply(3, 5, 7)
        amx.store(0, sums, e, row)
        amx.store(1, sums, e + LANES, row)
        if many:
            amx.store(2, sums, amx.ROWS * size + e, row)
            amx.store(3, sums, amx.ROWS * size + e + LANES, row)


@kernel
def _ask_ahead(keys: Any, values: Any, table: Any, block: int, blocks: int, step: int, base: int, count: int) -> None:
    """Ask for the values of a block, which are needed after its run's softmax, and for the keys of the next one."""
    ask(values, np.int64(table[block]) * step + base, count)
    if block + 1 < blocks:
        ask(keys, np.int64(table[block + 1]) * step + base, count)


@kernel
def attend_rows(
    query: Any, at: int, apart: int, rows: int, position: int, pace: int, keys: Any, values: Any, table: Any,
    group: int, groups: int, size: int, scale: float, out: Any, narrow: Any, scores: Any, shares: Any, sums: Any,
    state: Any,
) -> None:  # fmt: skip
    """Up to 32 queries over all that each may see: one head of neighbouring prompt rows, or one row's group of heads.

    query and out, float32, have E numbers of each from element ``at`` on, ``apart`` from one to the next; they may be
    the same. The first is at ``position`` of its sequence, the next ones ``pace`` (1 or 0) further. keys and values
    are flat, ``table`` names the sequence's blocks, ``group`` is the key/value head of ``groups``. The rest belongs to
    the thread: narrow and shares bfloat16 [32, E] and [32, RUN], scores and sums float32 of those shapes, state
    [2, 32].
    """
    tops, masses = state[0], state[1]
    for row in range(rows):
        tops[row], masses[row] = LOWEST, np.float32(0)
        for e in range(0, size, LANES):
            store(sums, row * size + e, splat(np.float32(0)))
            store(narrow, row * size + e, load(query, at + row * apart + e))
    step, count = groups * size * BLOCK_SIZE, size * BLOCK_SIZE
    base, length = group * count, position + (rows - 1) * pace + 1
    all_blocks = (length + BLOCK_SIZE - 1) // BLOCK_SIZE
    for first in range(0, length, RUN):
        run = first // BLOCK_SIZE
        blocks = min(RUN // BLOCK_SIZE, all_blocks - run)
        for block in range(blocks):
            if pace == 0:
                _ask_ahead(keys, values, table, run + block, all_blocks, step, base, count)
            at_block = np.int64(table[run + block]) * step + base
            _scores(narrow, size, rows, keys, at_block, scores, block * BLOCK_SIZE)
        for row in range(rows):
            seen = min(blocks * BLOCK_SIZE, position + row * pace + 1 - first)
            kept = _share(scores, row, blocks * BLOCK_SIZE, seen, scale / LN_2, tops, masses, shares)
            if kept != np.float32(1):
                carry = splat(kept)
                for e in range(0, size, LANES):
                    store(sums, row * size + e, mul(carry, load(sums, row * size + e)))
        _accumulate(shares, run, size, rows, values, table, base, step, blocks, sums)
    for row in range(rows):
        share = splat(np.float32(1) / masses[row])
        for e in range(0, size, LANES):
            store(out, at + row * apart + e, mul(share, load(sums, row * size + e)))
