"""One part of a query's rows on the matrix unit: scores of 32 rows at a time, their softmax, sums of values by runs.

Scores are made turned, rows against queries, so that rows need no turning and a softmax has heads in its lanes; shares
are turned instead, of which there are fewer numbers. 32 rows are unpacked and multiplied at a time: they stay in the
first cache while the queries stream past from the second. Not fewer: the unit needs half a microsecond to get going
again. What is summed over rows later is kept for a run of them, because loading and storing the sums costs as much as
three such steps.

A softmax is relative to a *level* for each head, in base 2: the largest score of the first rows. It rises only where a
later score is larger by ``MARGIN``: shares up to 2**16 lose nothing in bfloat16, which has the exponents of float32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from isotherm.kernels.cpu import amx
from isotherm.kernels.cpu.compiled import inlined, kernel
from isotherm.kernels.cpu.packed_rows import ask_at, unpack_group
from isotherm.kernels.cpu.turned_tiles import any_above, keep_pair, share, turn_tile
from isotherm.kernels.cpu.vector import LANES, add, fma, larger, load, mul, splat, store

ROWS = 32
"""Rows that are unpacked, multiplied and softened together: one step of the sums over rows."""
STEPS = 10
"""Steps of a run: what it keeps (320 KB of rows of 512) and the sums (128 KB for 64 heads) share the second cache."""
RING = STEPS + 1
"""Room for steps: one may be begun while a run of others waits."""
AHEAD = 64
"""Rows by which rows are asked for before they are unpacked."""
TILE = 512
"""Numbers of a tile of bfloat16; of float32 half as many."""
MARGIN = np.float32(16)
LOWEST = np.float32(-3e38)


class Shape(NamedTuple):
    """H, D, how many numbers are rotated in packed rows; vectors of 32 numbers, groups of 64, pairs of head tiles."""

    heads: int
    size: int
    rotated: int
    vectors: int
    groups: int
    pairs: int


class Room(NamedTuple):
    """A thread's: queries as tiles, 32 rows, woven rows and shares of a run, a tile to be turned, scores."""

    query: Any
    plain: Any
    woven: Any
    shares: Any
    turning: Any
    scores: Any
    tops: Any


class Sums(NamedTuple):
    """Of one part: level and mass of each head, and sums of values as tiles [pairs, vectors, 2, 2, 16, 16]."""

    levels: Any
    masses: Any
    values: Any


@inlined
def plain_apart(vectors: int) -> int:
    """Elements from one row to the next; a line more than it takes, so that columns spread over the cache's sets."""
    return 32 * vectors + 32


@inlined
def woven_apart(vectors: int) -> int:
    """Elements from one pair of woven rows to the next, likewise."""
    return 64 * vectors + 32


@inlined
def ask_row(records: Any, scales: Any, row: int, rows: int, lines: int) -> None:
    """Ask for a listed row, if there is one."""
    if row < rows:
        for line in range(lines):
            ask_at(records[row] + 64 * line)
        ask_at(scales[row])


@kernel
def _unpack(
    data: Any, records: Any, scales: Any, first: int, count: int, rows: int, lines: int, shape: Shape, room: Room,
    base: int,
) -> None:  # fmt: skip
    """``count`` listed rows from ``first`` on; the last one stands for those that are missing."""
    apart, woven = plain_apart(shape.vectors), woven_apart(shape.vectors)
    for pair in range(ROWS // 2):
        x, y = first + min(2 * pair, count - 1), first + min(2 * pair + 1, count - 1)
        a, b, c, d = records[x], records[y], scales[x], scales[y]
        ask_row(records, scales, first + AHEAD + 2 * pair, rows, lines)
        ask_row(records, scales, first + AHEAD + 2 * pair + 1, rows, lines)
        at, to = 2 * pair * apart, base + pair * woven
        for group in range(shape.groups):
            unpack_group(
                data, a, b, c, d, shape.size, shape.rotated, group, room.plain, at + 64 * group, apart, room.woven,
                to + 128 * group,
            )  # fmt: skip


@inlined
def _clear() -> None:
    amx.zero(0)
    amx.zero(1)
    amx.zero(2)
    amx.zero(3)


@inlined
def _load(sums: Any, at: int, right: int, down: int, stride: int) -> None:
    """A square of four tiles of sums; ``right`` and ``down`` are the ways to the others."""
    amx.load(0, sums, at, stride)
    amx.load(1, sums, at + right, stride)
    amx.load(2, sums, at + down, stride)
    amx.load(3, sums, at + down + right, stride)


@inlined
def _store(sums: Any, at: int, right: int, down: int, stride: int) -> None:
    amx.store(0, sums, at, stride)
    amx.store(1, sums, at + right, stride)
    amx.store(2, sums, at + down, stride)
    amx.store(3, sums, at + down + right, stride)


@inlined
def _multiply() -> None:
    amx.multiply(0, 4, 6)
    amx.multiply(2, 5, 6)
    amx.multiply(1, 4, 7)
    amx.multiply(3, 5, 7)


@kernel
def _score(plain: Any, query: Any, vectors: int, pairs: int, scores: Any) -> None:
    """scores float32 [32, H] of the rows in ``plain``."""
    apart, down = 2 * plain_apart(vectors), LANES * 2 * LANES * pairs
    for pair in range(pairs):
        _clear()
        for vector in range(vectors):
            tile = (pair * vectors + vector) * 2 * TILE
            amx.load(4, plain, 32 * vector, apart)
            amx.load(5, plain, 32 * vector + LANES * apart // 2, apart)
            amx.load_passing(6, query, tile, 64)
            amx.load_passing(7, query, tile + TILE, 64)
            _multiply()
        _store(scores, 2 * LANES * pair, LANES, down, 8 * LANES * pairs)


@kernel
def _sum_values(room: Room, first: int, count: int, vectors: int, pairs: int, fresh: bool, sums: Any) -> None:
    """Shares times rows, over ``count`` steps of the ring from ``first`` on."""
    apart = woven_apart(vectors)
    for pair in range(pairs):
        for vector in range(vectors):
            at = (pair * vectors + vector) * 2 * TILE
            if fresh:
                _clear()
            else:
                _load(sums, at, TILE // 2, TILE, 64)
            for step in range(first, first + count):
                slot = step - RING if step >= RING else step
                rows, tile = slot * LANES * apart + vector * 64, (pair * RING + slot) * 2 * TILE
                amx.load_passing(6, room.woven, rows, 2 * apart)
                amx.load_passing(7, room.woven, rows + 32, 2 * apart)
                amx.load(4, room.shares, tile, 64)
                amx.load(5, room.shares, tile + TILE, 64)
                _multiply()
            _store(sums, at, TILE // 2, TILE, 64)


@kernel
def _highest(scores: Any, count: int, wide: int, factor: float, tops: Any) -> None:
    """The largest score of each head; rows from ``count`` on are made to count for nothing."""
    for place in range(count * wide, ROWS * wide, LANES):
        store(scores, place, splat(LOWEST))
    for head in range(0, wide, LANES):
        even, odd = load(scores, head), load(scores, wide + head)
        for row in range(2, ROWS, 2):
            even = larger(load(scores, row * wide + head), even)
            odd = larger(load(scores, (row + 1) * wide + head), odd)
        store(tops, head, mul(splat(factor), larger(even, odd)))


@kernel
def _must_rise(tops: Any, levels: Any, wide: int) -> bool:
    rise = False
    for head in range(0, wide, LANES):
        rise |= any_above(load(tops, head), add(load(levels, head), splat(MARGIN)))
    return rise


@kernel
def _rise(tops: Any, vectors: int, pairs: int, fresh: bool, sums: Sums) -> None:
    """Levels to the new tops, and what was summed relative to the old ones; ``tops`` is written over."""
    wide, lower = 2 * LANES * pairs, splat(np.float32(-1))
    for head in range(0, wide, LANES):
        old = load(sums.levels, head)
        level = larger(load(tops, head), old)
        carry = share(fma(level, lower, old))
        store(sums.levels, head, level)
        store(sums.masses, head, mul(carry, load(sums.masses, head)))
        store(tops, head, carry)
    if fresh:
        return
    for head in range(wide):
        first = head // 32 * vectors * 2 * TILE + head % 32 // LANES * TILE + head % LANES * LANES
        carry = splat(tops[head])
        for at in range(first, first + vectors * 2 * TILE, 2 * TILE):
            store(sums.values, at, mul(carry, load(sums.values, at)))
            store(sums.values, at + TILE // 2, mul(carry, load(sums.values, at + TILE // 2)))


@kernel
def _soften(room: Room, slot: int, wide: int, factor: float, sums: Sums) -> None:
    """Scores to shares, which become tiles of heads against rows at ``slot`` of the ring."""
    scores, factors = room.scores, splat(factor)
    for head in range(0, wide, LANES):
        low, mass = mul(splat(np.float32(-1)), load(sums.levels, head)), load(sums.masses, head)
        for pair in range(ROWS // 2):
            even = share(fma(load(scores, 2 * pair * wide + head), factors, low))
            odd = share(fma(load(scores, (2 * pair + 1) * wide + head), factors, low))
            mass = add(mass, add(even, odd))
            keep_pair(room.turning, pair * 2 * LANES, even, odd)
        store(sums.masses, head, mass)
        tile = head // LANES
        turn_tile(room.turning, 0, 2 * LANES, room.shares, ((tile // 2 * RING + slot) * 2 + tile % 2) * TILE)


@kernel
def attend_part(
    data: Any, records: Any, scales: Any, rows: int, listed: int, factor: float, lines: int, shape: Shape, room: Room,
    sums: Sums,
) -> None:  # fmt: skip
    """The first ``rows`` of ``listed`` rows; those behind them are asked for. The room's queries are ready."""
    vectors, pairs, wide = shape.vectors, shape.pairs, 2 * LANES * shape.pairs
    for head in range(wide):
        sums.levels[head], sums.masses[head] = LOWEST, np.float32(0)
    fresh, first, slot, waiting = True, 0, 0, 0
    for start in range(0, rows, ROWS):
        count = min(ROWS, rows - start)
        base = slot * LANES * woven_apart(vectors)
        _unpack(data, records, scales, start, count, listed, lines, shape, room, base)
        _score(room.plain, room.query, vectors, pairs, room.scores)
        _highest(room.scores, count, wide, factor, room.tops)
        if _must_rise(room.tops, sums.levels, wide):
            if waiting:
                _sum_values(room, first, waiting, vectors, pairs, fresh, sums.values)
                fresh, first, waiting = False, slot, 0
            _rise(room.tops, vectors, pairs, fresh, sums)
        _soften(room, slot, wide, factor, sums)
        slot, waiting = (slot + 1) % RING, waiting + 1
        if waiting == STEPS or start + ROWS >= rows:
            _sum_values(room, first, waiting, vectors, pairs, fresh, sums.values)
            fresh, first, waiting = False, slot, 0
