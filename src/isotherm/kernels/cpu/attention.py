"""Decode attention over paged keys and values: one query row a sequence, the machine's threads over (row, head) pairs.

A row's sum runs over its blocks in order with an online softmax (Milakov and Gimelshein 2018), whatever else is in
the batch, so a sequence's result is bitwise the same alone and in a crowd. With a bfloat16 cache queries and shares are
rounded to bfloat16 too and multiplied in pairs; all sums are float32.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from torch import Tensor

from isotherm.base.block import BLOCK_SIZE
from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.bits import exp
from isotherm.kernels.cpu.compiled import kernel, parallel
from isotherm.kernels.cpu.pairs import PAIR, dot
from isotherm.kernels.cpu.vector import (
    LANES,
    add,
    ask,
    exponential,
    highest,
    keep,
    load,
    maximum,
    mul,
    splat,
    store,
    total,
)

assert BLOCK_SIZE == 2 * LANES, "the score loop below holds a block in two registers"


@kernel
def _scores(query: Any, at: int, keys: Any, base: int, size: int, scale: float, scores: Any) -> None:
    """scale * q.k for the 32 positions of a block; keys of a block are [E/P, 32, P], packed queries [E/P]."""
    pair = PAIR(keys)
    step = BLOCK_SIZE * pair
    even0 = splat(np.float32(0))
    even1, odd0, odd1 = even0, even0, even0
    for e in range(0, size // pair, 2):
        even0 = dot(query, at + e, keys, base + e * step, even0)
        even1 = dot(query, at + e, keys, base + e * step + LANES * pair, even1)
        odd0 = dot(query, at + e + 1, keys, base + (e + 1) * step, odd0)
        odd1 = dot(query, at + e + 1, keys, base + (e + 1) * step + LANES * pair, odd1)
    factor = splat(scale)
    store(scores, 0, mul(factor, add(even0, odd0)))
    store(scores, LANES, mul(factor, add(even1, odd1)))


@kernel
def _accumulate(shares: Any, values: Any, base: int, size: int, carry: float, sums: Any) -> None:
    """sums = carry * sums + shares . values; values of a block are [32/P, E, P], packed shares [32/P]."""
    pair = PAIR(values)
    step = size * pair
    for e in range(0, size, LANES):
        even = mul(splat(carry), load(sums, e))
        odd = splat(np.float32(0))
        for j in range(0, BLOCK_SIZE // pair, 2):
            even = dot(shares, j, values, base + j * step + e * pair, even)
            odd = dot(shares, j + 1, values, base + (j + 1) * step + e * pair, odd)
        store(sums, e, add(even, odd))


@kernel
def _softmax(scores: Any, count: int, highest_so_far: Any) -> tuple[Any, Any]:
    """Turn 32 scores into exp(score - top), zero from ``count`` on; returns the new top and the sum."""
    zero, lowest = splat(np.float32(0)), splat(np.float32(-3.0e38))
    first, second = load(scores, 0), load(scores, LANES)
    top = highest(
        maximum(keep(first, count, lowest), maximum(keep(second, count - LANES, lowest), splat(highest_so_far)))
    )
    offset = splat(-top)
    first = keep(exponential(add(first, offset)), count, zero)
    second = keep(exponential(add(second, offset)), count - LANES, zero)
    store(scores, 0, first)
    store(scores, LANES, second)
    return top, total(add(first, second))


@kernel
def _read_ahead(keys: Any, values: Any, block: int, groups: int, group: int, count: int) -> None:
    """Ask for a group's keys and values in a block, ``count`` numbers each."""
    at = (np.int64(block) * groups + group) * count
    ask(keys, at, count)
    ask(values, at, count)


@kernel
def attend_heads(
    query: Any, at: int, first: int, last: int, group: int, packed: Any, keys: Any, values: Any, table: Any,
    length: int, then: int, scale: float, out: Any, scratch: Any,
) -> None:  # fmt: skip
    """Query heads ``first`` to ``last`` of one row over ``length`` positions, ``group`` heads to a key/value head.

    A head's query is ``query[at + head E :]``, its result goes to the same place of ``out``, which may be the same
    array. Heads go through the blocks side by side, so that memory is read in one sweep; ``then`` is the block that
    will be wanted next (-1: none). For ``scratch`` and ``packed`` see ``scratch_sizes``. Positions past the length in
    the last block are whatever lies there: their scores are discarded, but a NaN in their values would not be, so the
    cache must start finite (see ``cache.pool``).
    """
    groups, size = values.shape[1], values.shape[3]
    flat_keys, flat_values = keys.reshape(-1), values.reshape(-1)
    scores, shares = scratch[:BLOCK_SIZE], packed[:BLOCK_SIZE]
    heads = last - first
    peaks, masses = scratch[BLOCK_SIZE : BLOCK_SIZE + heads], scratch[BLOCK_SIZE + heads : BLOCK_SIZE + 2 * heads]
    sums = scratch[BLOCK_SIZE + 2 * heads :]
    for index in range(heads):
        peaks[index], masses[index] = np.float32(-3.0e38), np.float32(0)
        for e in range(0, size, LANES):
            store(sums, index * size + e, splat(np.float32(0)))
            store(packed, BLOCK_SIZE + index * size + e, load(query, at + (first + index) * size + e))
    blocks, count = (length + BLOCK_SIZE - 1) // BLOCK_SIZE, size * BLOCK_SIZE
    for block in range(blocks):
        following = np.int64(table[block + 1]) if block + 1 < blocks else then
        for index in range(heads):
            own = (first + index) // group
            if following >= 0 and (index == 0 or (first + index) % group == 0):
                _read_ahead(flat_keys, flat_values, following, groups, own, count)
            base = (np.int64(table[block]) * groups + own) * count
            _scores(packed, (BLOCK_SIZE + index * size) // PAIR(keys), flat_keys, base, size, scale, scores)
            top, part = _softmax(scores, min(BLOCK_SIZE, length - block * BLOCK_SIZE), peaks[index])
            store(shares, 0, load(scores, 0))
            store(shares, LANES, load(scores, LANES))
            carry = exp(peaks[index] - top)
            peaks[index], masses[index] = top, masses[index] * carry + part
            _accumulate(shares, flat_values, base, size, carry, sums[index * size : (index + 1) * size])
    for index in range(heads):
        share = splat(np.float32(1) / masses[index])
        for e in range(0, size, LANES):
            store(out, at + (first + index) * size + e, mul(share, load(sums, index * size + e)))


@kernel
def scratch_sizes(heads: int, size: int) -> tuple[int, int]:
    """How many numbers a thread needs: float32 (``scratch``), and of the cache's kind (``packed``)."""
    return BLOCK_SIZE + heads * (size + 2), BLOCK_SIZE + heads * size


@kernel
def attend_share(
    thread: int, threads: int, query: Any, heads: int, packed: Any, keys: Any, values: Any, tables: Any, lengths: Any,
    scale: float, out: Any, scratch: Any,
) -> None:  # fmt: skip
    """One thread's part of all decode rows: whole rows, or with fewer rows than threads neighbouring heads of each."""
    rows, size, group = lengths.size, values.shape[3], heads // values.shape[1]
    if rows >= threads:
        for row in range(thread, rows, threads):
            then = np.int64(tables[row + threads, 0]) if row + threads < rows else np.int64(-1)
            attend_heads(
                query, row * heads * size, 0, heads, group, packed, keys, values, tables[row], lengths[row], then,
                scale, out, scratch,
            )  # fmt: skip
    else:
        for row in range(rows):
            attend_heads(
                query, row * heads * size, heads * thread // threads, heads * (thread + 1) // threads, group, packed,
                keys, values, tables[row], lengths[row], np.int64(-1), scale, out, scratch,
            )  # fmt: skip


@parallel
def _attend(
    query: Any, heads: int, keys: Any, values: Any, tables: Any, lengths: Any, scale: float, out: Any, threads: int
) -> None:
    room, packed_room = scratch_sizes(heads, values.shape[3])
    scratch, packed = np.empty((threads, room), np.float32), np.empty((threads, packed_room), values.dtype)
    for thread in numba.prange(threads):
        attend_share(
            thread, threads, query, heads, packed[thread], keys, values, tables, lengths, scale, out, scratch[thread]
        )


def attend_decode(
    query: Tensor, tables: Tensor, lengths: Tensor, k_cache: Tensor, v_cache: Tensor, scale: float
) -> Tensor:
    """Twin of ``reference.ops.attend_decode``: query float32, E a multiple of 16; returns the cache's dtype."""
    rows, heads, size = query.shape
    out = query.new_empty((rows, heads, size), dtype=v_cache.dtype)
    _attend(
        as_array(query).reshape(-1),
        heads,
        as_array(k_cache),
        as_array(v_cache),
        as_array(tables),
        as_array(lengths),
        np.float32(scale),
        as_array(out).reshape(-1),
        numba.get_num_threads(),
    )
    return out
