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
from isotherm.kernels.cpu.pairs import PAIR, dot, pack
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
def attend_head(
    query: Any, at: int, packed: Any, keys: Any, values: Any, table: Any, length: int, head: int, fresh: bool,
    scale: float, out: Any, scratch: Any,
) -> None:  # fmt: skip
    """One query head (``query[at : at + E]``) over ``length`` positions of key/value head ``head``.

    ``fresh`` says that no other head of the group has just read these keys and values: the next block is then asked
    for while one is computed. ``scratch`` float32 and ``packed`` (the cache's kind) hold 32 + E numbers each; the
    result is ``out[at : at + E]``. Positions past the length in the last block are whatever lies there: their scores
    are discarded, but a NaN in their values would not be, so the cache must start finite (see ``cache.pool``).
    """
    heads, size = values.shape[1], values.shape[3]
    scores, sums = scratch[:BLOCK_SIZE], scratch[BLOCK_SIZE : BLOCK_SIZE + size]
    shares, packed_query = packed[:BLOCK_SIZE], packed[BLOCK_SIZE : BLOCK_SIZE + size]
    pack(query, at, size, packed_query)
    for e in range(0, size, LANES):
        store(sums, e, splat(np.float32(0)))
    peak, mass = np.float32(-3.0e38), np.float32(0)
    flat_keys, flat_values = keys.reshape(-1), values.reshape(-1)
    blocks = (length + BLOCK_SIZE - 1) // BLOCK_SIZE
    for index in range(blocks):
        base = (np.int64(table[index]) * heads + head) * (size * BLOCK_SIZE)
        if fresh and index + 1 < blocks:
            ahead = (np.int64(table[index + 1]) * heads + head) * (size * BLOCK_SIZE)
            ask(flat_keys, ahead, size * BLOCK_SIZE)
            ask(flat_values, ahead, size * BLOCK_SIZE)
        _scores(packed_query, 0, flat_keys, base, size, scale, scores)
        top, part = _softmax(scores, min(BLOCK_SIZE, length - index * BLOCK_SIZE), peak)
        pack(scores, 0, BLOCK_SIZE, shares)
        carry = exp(peak - top)
        peak, mass = top, mass * carry + part
        _accumulate(shares, flat_values, base, size, carry, sums)
    share = splat(np.float32(1) / mass)
    for e in range(0, size, LANES):
        store(out, at + e, mul(share, load(sums, e)))


@kernel
def attend_share(
    thread: int, threads: int, query: Any, heads: int, packed: Any, keys: Any, values: Any, tables: Any, lengths: Any,
    scale: float, out: Any, scratch: Any,
) -> None:  # fmt: skip
    """One thread's part of all (row, head) pairs.

    The query heads of a group read the same keys and values, so a thread takes whole groups; with fewer rows than
    threads it takes neighbouring heads, or a thread would be idle.
    """
    size, groups = values.shape[3], values.shape[1]
    group = heads // groups
    if lengths.size >= threads:
        for item in range(thread, lengths.size * groups, threads):
            row = item // groups
            for head in range(item % groups * group, (item % groups + 1) * group):
                attend_head(
                    query, (row * heads + head) * size, packed, keys, values, tables[row], lengths[row], head // group,
                    head % group == 0, scale, out, scratch,
                )  # fmt: skip
    else:
        pairs = lengths.size * heads
        for pair in range(pairs * thread // threads, pairs * (thread + 1) // threads):
            row, head = pair // heads, pair % heads
            attend_head(
                query, pair * size, packed, keys, values, tables[row], lengths[row], head // group,
                head % group == 0, scale, out, scratch,
            )  # fmt: skip


@parallel
def _attend(
    query: Any, heads: int, keys: Any, values: Any, tables: Any, lengths: Any, scale: float, out: Any, threads: int
) -> None:
    room = BLOCK_SIZE + values.shape[3]
    scratch, packed = np.empty((threads, room), np.float32), np.empty((threads, room), values.dtype)
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
