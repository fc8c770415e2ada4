"""Twin of ``reference.latent_attention.attend`` on the matrix unit, for caches of bfloat16 or packed rows.

Queries and shares are rounded to bfloat16, sums are float32. A query's rows are cut into parts by their number alone,
and the parts' results are joined by their masses: whatever shares the batch, and however many threads there are, the
same numbers are summed in the same order. Few queries share the threads part by part, many query by query.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from isotherm.kernels.cpu import amx, latent_attention
from isotherm.kernels.cpu.aligned import aligned
from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.compiled import inlined, kernel, parallel
from isotherm.kernels.cpu.latent_attention import NO_CHOICE
from isotherm.kernels.cpu.latent_products import (
    AHEAD,
    RING,
    ROWS,
    STEPS,
    TILE,
    Room,
    Shape,
    Sums,
    ask_row,
    attend_part,
    plain_apart,
    woven_apart,
)
from isotherm.kernels.cpu.packed_rows import address_of
from isotherm.kernels.cpu.turned_tiles import (
    keep_neighbours,
    keep_parted,
    rotated,
    turn_tile,
    write_half,
    write_parted,
    write_whole,
)
from isotherm.kernels.cpu.vector import LANES, fma, load, splat, store
from isotherm.kernels.layouts import Rows
from isotherm.kernels.reference.latent_attention import Seen

PARTS = 8
"""Most parts of a query."""
_LOG2_E = 1.4426950408889634


@inlined
def _parts_of(rows: int) -> tuple[int, int]:
    """How many parts so many rows have, and how many rows a part has at most, whole steps."""
    parts = min(PARTS, (rows + STEPS * ROWS - 1) // (STEPS * ROWS))
    return parts, ((rows + parts - 1) // max(1, parts) + ROWS - 1) // ROWS * ROWS


@kernel
def _list_rows(
    window: Any, page: int, first: int, recent: int, around: int, data: Any, table: Any, per_page: int, chosen: Any,
    listed: bool, count: int, shape: Shape, records: Any, scales: Any,
) -> None:  # fmt: skip
    """Where the rows are that a query sees: those of the window, then the compressed ones."""
    base, size, turned = window.ctypes.data, shape.size, shape.rotated
    for i in range(recent):
        row = first + i - around if first + i >= around else first + i
        records[i], scales[i] = address_of(window, base, page, row, size, turned)
    base = data.ctypes.data
    for i in range(count):
        index = np.uint32(chosen[i]) if listed else np.uint32(i)
        block = index // np.uint32(per_page)
        within = np.int64(index - block * np.uint32(per_page))
        records[recent + i], scales[recent + i] = address_of(data, base, table[block], within, size, turned)


@kernel
def _prepare(queries: Any, at: int, shape: Shape, scratch: Any, out: Any) -> None:
    """Queries [H, D] from element ``at`` on as tiles [pairs, vectors, 2, 16 pairs of numbers, 16 heads, 2].

    Heads that fill up the last tile repeat the last one.
    """
    packed = shape.size - shape.rotated if shape.rotated else 0
    for tile in range(2 * shape.pairs):
        for vector in range(0, shape.vectors, 2):
            left, zero = shape.size - 32 * vector, splat(np.float32(0))
            for lane in range(LANES):
                place = at + min(tile * LANES + lane, shape.heads - 1) * shape.size + 32 * vector
                a, b, c, d = load(queries, place), zero, zero, zero
                if left > LANES:
                    b = load(queries, place + LANES)
                if left > 2 * LANES:
                    c = load(queries, place + 2 * LANES)
                if left > 3 * LANES:
                    d = load(queries, place + 3 * LANES)
                if 32 * vector < packed:
                    keep_parted(scratch, 64 * lane, a, b, c, d)
                else:
                    keep_neighbours(scratch, 64 * lane, a, b)
                    keep_neighbours(scratch, 64 * lane + 32, c, d)
            for odd in range(min(2, shape.vectors - vector)):
                to = ((tile // 2 * shape.vectors + vector + odd) * 2 + tile % 2) * TILE
                turn_tile(scratch, 32 * odd, 64, out, to)


@kernel
def _weigh(parts: int, head: int, wide: int, sink: float, sums: Sums, weights: Any) -> None:
    """Share of each part's sums in a head's result; the sink is a score without a row."""
    low = sink * np.float32(_LOG2_E)
    top = low
    for part in range(parts):
        top = max(top, sums.levels[part * wide + head])
    total = np.float32(2) ** (low - top)
    for part in range(parts):
        weights[part] = np.float32(2) ** (sums.levels[part * wide + head] - top)
        total += weights[part] * sums.masses[part * wide + head]
    for part in range(parts):
        weights[part] /= total


@kernel
def _join(parts: int, head: int, shape: Shape, sums: Sums, weights: Any, out: Any, to: int) -> None:
    """A head's sums, part by part, to out[to : to + D] in the order of numbers."""
    packed, part_size = shape.size - shape.rotated if shape.rotated else 0, shape.pairs * shape.vectors * 2 * TILE
    base = head // 32 * shape.vectors * 2 * TILE + head % 32 // LANES * TILE + head % LANES * LANES
    zero, second = splat(np.float32(0)), TILE // 2
    for vector in range(0, shape.vectors, 2):
        a, b, c, d = zero, zero, zero, zero
        for part in range(parts):
            weight, at = splat(weights[part]), part * part_size + base + vector * 2 * TILE
            a, b = fma(weight, load(sums.values, at), a), fma(weight, load(sums.values, at + second), b)
            if vector + 1 < shape.vectors:
                at += 2 * TILE
                c, d = fma(weight, load(sums.values, at), c), fma(weight, load(sums.values, at + second), d)
        left, place = shape.size - 32 * vector, to + 32 * vector
        if 32 * vector < packed:
            write_parted(out, place, a, b, c, d)
            continue
        if left >= 32:
            write_whole(out, place, a, b)
        else:
            write_half(out, place, a, b)
        if left >= 64:
            write_whole(out, place + 32, c, d)
        elif left > 32:
            write_half(out, place + 32, c, d)


@kernel
def _finish(
    parts: int, first: int, last: int, shape: Shape, sums: Sums, sink: Any, cos: Any, sin: Any, row: int, pairs: int,
    out: Any, weights: Any, angles: Any,
) -> None:  # fmt: skip
    """Heads ``first`` to ``last`` of a query, their last numbers turned back; weights and angles are scratch."""
    for i in range(pairs):
        angles[0, 2 * i], angles[0, 2 * i + 1] = cos[row * pairs + i], cos[row * pairs + i]
        angles[1, 2 * i], angles[1, 2 * i + 1] = sin[row * pairs + i], -sin[row * pairs + i]
    for head in range(first, last):
        to = (row * shape.heads + head) * shape.size
        _weigh(parts, head, 2 * LANES * shape.pairs, sink[head], sums, weights)
        _join(parts, head, shape, sums, weights, out, to)
        for i in range(0, 2 * pairs, LANES):
            place = to + shape.size - 2 * pairs + i
            store(out, place, rotated(load(out, place), load(angles[0], i), load(angles[1], i)))


@kernel
def _shape(heads: int, size: int, rotated: int) -> Shape:
    return Shape(heads, size, rotated, (size + 31) // 32, (size + 63) // 64, (heads + 31) // 32)


@kernel
def _room(words: Any, floats: Any, shape: Shape) -> Room:
    """A thread's room, out of rows of ``_rooms``."""
    plain = shape.pairs * shape.vectors * 2 * TILE
    woven = plain + ROWS * plain_apart(shape.vectors)
    shares = woven + RING * LANES * woven_apart(shape.vectors)
    turning = shares + shape.pairs * RING * 2 * TILE
    wide = 2 * LANES * shape.pairs
    return Room(
        words[:plain], words[plain:woven], words[woven:shares], words[shares:turning], words[turning:],
        floats[: ROWS * wide], floats[ROWS * wide :],
    )  # fmt: skip


@kernel
def _rows_of(
    thread: int, threads: int, shared: bool, queries: Any, rows: int, shape: Shape, window: Any, pages: Any,
    firsts: Any, recents: Any, around: int, data: Any, tables: Any, of: Any, per_page: int, chosen: Any, listed: bool,
    counts: Any, sink: Any, scale: float, cos: Any, sin: Any, turned: int, out: Any, words: Any, floats: Any,
    states: Any, values: Any,
) -> None:  # fmt: skip
    """A thread's queries, from the list of their rows to their results; or, where they are ``shared``, its parts."""
    wide, part_size, most = (
        2 * LANES * shape.pairs,
        shape.pairs * shape.vectors * 2 * TILE,
        recents.max() + counts.max(),
    )
    lines = (2 * shape.size - (shape.size - shape.rotated if shape.rotated else 0) + 63) // 64
    room, factor, task = _room(words[thread], floats[thread], shape), np.float32(scale * _LOG2_E), 0
    records, scales = np.empty(most, np.int64), np.empty(most, np.int64)
    weights, angles = np.empty(PARTS, np.float32), np.empty((2, 2 * turned), np.float32)
    amx.begin()
    for row in range(0 if shared else thread, rows, 1 if shared else threads):
        number, place, ready = recents[row] + counts[row], row if shared else thread, False
        parts, each = _parts_of(number)
        for part in range(parts):
            task += 1
            if shared and task % threads != thread:
                continue
            begin, end = part * each, min((part + 1) * each, number)
            if not ready:
                _list_rows(
                    window, pages[row], firsts[row], recents[row], around, data, tables[of[row]], per_page,
                    chosen[row if listed else 0], listed, counts[row], shape, records, scales,
                )  # fmt: skip
                # The first rows arrive while the queries are prepared; each later one is asked for by one before it.
                for i in range(begin, min(begin + AHEAD, number)):
                    ask_row(records, scales, i, number, lines)
                _prepare(queries, row * shape.heads * shape.size, shape, room.turning, room.query)
                ready = True
            levels, masses = states[place, 0, part * wide :], states[place, 1, part * wide :]
            sums = Sums(levels, masses, values[place, part * part_size :])
            attend_part(
                data, records[begin:], scales[begin:], end - begin, number - begin, factor, lines, shape, room, sums
            )
        if not shared:
            sums = Sums(states[place, 0], states[place, 1], values[place])
            _finish(parts, 0, shape.heads, shape, sums, sink, cos, sin, row, turned, out, weights, angles)
    amx.end()


@kernel
def _heads_of(
    thread: int, threads: int, rows: int, shape: Shape, recents: Any, counts: Any, sink: Any, cos: Any, sin: Any,
    turned: int, out: Any, states: Any, values: Any,
) -> None:  # fmt: skip
    """A thread's heads of all queries, from the parts' sums."""
    weights, angles = np.empty(PARTS, np.float32), np.empty((2, 2 * turned), np.float32)
    first, last = shape.heads * thread // threads, shape.heads * (thread + 1) // threads
    for row in range(rows):
        sums = Sums(states[row, 0], states[row, 1], values[row])
        parts = _parts_of(recents[row] + counts[row])[0]
        _finish(parts, first, last, shape, sums, sink, cos, sin, row, turned, out, weights, angles)


@parallel
def _attend(
    queries: Any, rows: int, heads: int, size: int, window: Any, pages: Any, firsts: Any, recents: Any, around: int,
    data: Any, tables: Any, of: Any, per_page: int, chosen: Any, listed: bool, counts: Any, rotated: int, sink: Any,
    scale: float, cos: Any, sin: Any, turned: int, out: Any, words: Any, floats: Any, states: Any, values: Any,
    threads: int,
) -> None:  # fmt: skip
    shared = rows < 2 * threads
    # prange counts in unsigned numbers, which with others make floating-point ones.
    for thread in numba.prange(threads):
        shape = _shape(heads, size, rotated)
        _rows_of(
            np.int64(thread), threads, shared, queries, rows, shape, window, pages, firsts, recents, around, data,
            tables, of, per_page, chosen, listed, counts, sink, scale, cos, sin, turned, out, words, floats, states,
            values,
        )  # fmt: skip
    if shared:
        for thread in numba.prange(threads):
            shape = _shape(heads, size, rotated)
            _heads_of(
                np.int64(thread), threads, rows, shape, recents, counts, sink, cos, sin, turned, out, states, values
            )


@lru_cache(maxsize=2)
def _rooms(threads: int, heads: int, size: int) -> tuple[Any, Any, Any, Any]:
    """What ``_attend`` writes to, kept between calls: fresh memory would be cleared by the system every time.

    Of a thread: numbers as bfloat16, and as float32; of a thread or, where they are shared, of a query: levels and
    masses of its parts, and their sums.
    """
    pairs, vectors, shares = -(-heads // 32), -(-size // 32), 2 * threads
    wide, tile = 32 * pairs, 2 * TILE
    words = tile * (pairs * vectors + pairs * RING + 2) + (ROWS + 2 * RING * LANES) * (32 * vectors + 32)
    sums = PARTS * pairs * vectors * tile
    return (
        aligned(threads * words, np.uint16).reshape(threads, words),
        aligned(threads * (ROWS + 1) * wide, np.float32).reshape(threads, -1),
        aligned(shares * 2 * PARTS * wide, np.float32).reshape(shares, 2, -1),
        aligned(shares * sums, np.float32).reshape(shares, sums),
    )


def attend(
    query: Tensor, window: Rows, seen: Seen, rows: Rows, sink: Tensor, scale: float, cos: Tensor, sin: Tensor
) -> Tensor:
    """See ``reference.latent_attention.attend``; D a multiple of 16. Vectors serve float32 caches and few heads."""
    if not _fits(query, window, rows, cos):
        return latent_attention.attend(query, window, seen, rows, sink, scale, cos, sin)
    out, threads = torch.empty(query.shape), numba.get_num_threads()
    chosen = NO_CHOICE if seen.chosen is None else as_array(seen.chosen)
    _attend(
        as_array(query).reshape(-1), query.shape[0], query.shape[1], query.shape[2], as_array(window.data),
        as_array(seen.pages), as_array(seen.firsts), as_array(seen.recents), window.per_page, as_array(rows.data),
        as_array(seen.tables), as_array(seen.of), rows.per_page, chosen, seen.chosen is not None,
        as_array(seen.counts), rows.layout.rotated, as_array(sink), np.float32(scale), as_array(cos).reshape(-1),
        as_array(sin).reshape(-1), cos.shape[1], as_array(out).reshape(-1), *_rooms(threads, *query.shape[1:]),
        threads,
    )  # fmt: skip
    return out


def _fits(query: Tensor, window: Rows, rows: Rows, cos: Tensor) -> bool:
    """Whether heads fill a tile, and all rows are of one kind that bfloat16 holds without a loss."""
    kinds = {(each.data.dtype, each.layout.rotated) for each in (window, rows)}
    whole = query.shape[1] >= LANES and cos.shape[1] % (LANES // 2) == 0
    return whole and len(kinds) == 1 and kinds <= {(torch.bfloat16, 0), (torch.uint8, rows.layout.rotated)}
