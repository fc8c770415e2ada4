"""Decode attention over paged keys and values: one query row a sequence, the machine's threads over (row, head) pairs.

A row's sum runs over its blocks in order with an online softmax (Milakov and Gimelshein 2018), whatever else is in
the batch, so a sequence's result is bitwise the same alone and in a crowd.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from torch import Tensor

from isotherm.base.block import BLOCK_SIZE
from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.bits import FASTMATH, exp
from isotherm.kernels.cpu.vector import LANES, add, fma, load, mul, splat, store

HALF = BLOCK_SIZE // LANES
assert HALF == 2, "the score loop below holds a block in two registers"


@numba.njit(fastmath=FASTMATH, error_model="numpy", cache=True)  # type: ignore[untyped-decorator]
def _scores(query: Any, at: int, keys: Any, base: int, size: int, scale: float, scores: Any) -> None:
    """scale * q.k for the 32 positions of a block; keys of a block are [E, 32]."""
    even0 = splat(np.float32(0))
    even1, odd0, odd1 = even0, even0, even0
    for e in range(0, size, 2):
        first = splat(query[at + e])
        even0 = fma(first, load(keys, base + e * BLOCK_SIZE), even0)
        even1 = fma(first, load(keys, base + e * BLOCK_SIZE + LANES), even1)
        second = splat(query[at + e + 1])
        odd0 = fma(second, load(keys, base + (e + 1) * BLOCK_SIZE), odd0)
        odd1 = fma(second, load(keys, base + (e + 1) * BLOCK_SIZE + LANES), odd1)
    factor = splat(scale)
    store(scores, 0, mul(factor, add(even0, odd0)))
    store(scores, LANES, mul(factor, add(even1, odd1)))


@numba.njit(fastmath=FASTMATH, error_model="numpy", cache=True)  # type: ignore[untyped-decorator]
def _accumulate(scores: Any, count: int, values: Any, base: int, size: int, carry: float, sums: Any) -> None:
    """sums = carry * sums + scores . values over ``count`` positions; values of a block are [32, E]."""
    for e in range(0, size, LANES):
        even = mul(splat(carry), load(sums, e))
        odd = splat(np.float32(0))
        for j in range(0, count - 1, 2):
            even = fma(splat(scores[j]), load(values, base + j * size + e), even)
            odd = fma(splat(scores[j + 1]), load(values, base + (j + 1) * size + e), odd)
        if count % 2:
            even = fma(splat(scores[count - 1]), load(values, base + (count - 1) * size + e), even)
        store(sums, e, add(even, odd))


@numba.njit(fastmath=FASTMATH, error_model="numpy", cache=True)  # type: ignore[untyped-decorator]
def attend_head(
    query: Any, at: int, keys: Any, values: Any, table: Any, length: int, head: int, scale: float, out: Any, scratch: Any
) -> None:
    """One query head (``query[at : at + E]``) over ``length`` positions of key/value head ``head``.

    ``scratch`` is float32 of at least 32 + E; the result goes to ``out[at : at + E]``.
    """
    heads, size = values.shape[1], values.shape[3]
    scores, sums = scratch[:BLOCK_SIZE], scratch[BLOCK_SIZE : BLOCK_SIZE + size]
    for e in range(0, size, LANES):
        store(sums, e, splat(np.float32(0)))
    highest, mass = np.float32(-3.0e38), np.float32(0)
    for index in range((length + BLOCK_SIZE - 1) // BLOCK_SIZE):
        count = min(BLOCK_SIZE, length - index * BLOCK_SIZE)
        base = (np.int64(table[index]) * heads + head) * (size * BLOCK_SIZE)
        _scores(query, at, keys, base, size, scale, scores)
        top = highest
        for j in range(count):
            top = max(top, scores[j])
        for j in range(count):
            scores[j] = exp(scores[j] - top)
        carry = exp(highest - top)
        part = np.float32(0)
        for j in range(count):
            part += scores[j]
        highest, mass = top, mass * carry + part
        _accumulate(scores, count, values, base, size, carry, sums)
    share = splat(np.float32(1) / mass)
    for e in range(0, size, LANES):
        store(out, at + e, mul(share, load(sums, e)))


@numba.njit(parallel=True, fastmath=FASTMATH, error_model="numpy", cache=True)  # type: ignore[untyped-decorator]
def _attend(
    query: Any, heads: int, keys: Any, values: Any, tables: Any, lengths: Any, scale: float, out: Any, scratch: Any
) -> None:
    threads = scratch.shape[0]
    size = values.shape[3]
    group = heads // values.shape[1]
    for thread in numba.prange(threads):
        for item in range(thread, lengths.size * heads, threads):
            row, head = item // heads, item % heads
            attend_head(
                query, item * size, keys, values, tables[row], lengths[row], head // group, scale, out, scratch[thread]
            )


def attend_decode(
    query: Tensor, tables: Tensor, lengths: Tensor, k_cache: Tensor, v_cache: Tensor, scale: float
) -> Tensor:
    """Twin of ``reference.ops.attend_decode``: query float32 [D, H, E], E a multiple of 16; returns the cache's dtype."""
    rows, heads, size = query.shape
    out = query.new_empty((rows, heads, size), dtype=v_cache.dtype)
    scratch = np.empty((numba.get_num_threads(), BLOCK_SIZE + size), np.float32)
    _attend(
        as_array(query).reshape(-1),
        heads,
        as_array(k_cache),
        as_array(v_cache),
        as_array(tables),
        as_array(lengths),
        np.float32(scale),
        as_array(out).reshape(-1),
        scratch,
    )
    return out
