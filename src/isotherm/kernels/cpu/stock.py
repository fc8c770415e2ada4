"""What a stack without kernels for this model does, kept to compare with: right, compiled, and slow in a known way.

``attend`` reads and unpacks every row again for every head, as fallbacks for GPU cores without matrix units do;
``choose`` scores as many rows as the longest context could have, as a captured graph or a padded page table makes one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.bits import exp
from isotherm.kernels.cpu.choose import PIECE, best, piece_scores
from isotherm.kernels.cpu.compiled import kernel, parallel
from isotherm.kernels.cpu.dense import products
from isotherm.kernels.cpu.latent_attention import attend_by
from isotherm.kernels.cpu.latent_rows import fetch_row
from isotherm.kernels.cpu.tile import TILE
from isotherm.kernels.cpu.turn import rotate_pairs
from isotherm.kernels.cpu.vector import LANES, fma, load, mul, splat, store
from isotherm.kernels.layouts import Rows
from isotherm.kernels.reference.latent_attention import Seen

Choose = Callable[[Tensor, Tensor, Rows, Tensor, Tensor, Tensor, int], Tensor]


@kernel
def _take(queries: Any, at: int, row: Any, size: int, scale: float, state: Any, out: Any) -> None:
    """One more row of a head's online softmax: sums in out[at : at + size], state holds the top and the mass."""
    products(row, 0, queries, at, size, 1, state, 2)
    score = state[2] * scale
    if score > state[0]:
        carry = exp(state[0] - score)
        state[0], state[1] = score, state[1] * carry
        for d in range(at, at + size, LANES):
            store(out, d, mul(splat(carry), load(out, d)))
    share = exp(score - state[0])
    state[1] += share
    for d in range(0, size, LANES):
        store(out, at + d, fma(splat(share), load(row, d), load(out, at + d)))


@kernel
def _head(
    queries: Any, at: int, size: int, window: Any, page: int, first: int, recent: int, around: int, w_rotated: int,
    data: Any, table: Any, per_page: int, chosen: Any, listed: bool, count: int, rotated: int, sink: float,
    scale: float, out: Any, row: Any, state: Any,
) -> None:  # fmt: skip
    """One head of one query, from element ``at`` of queries and out; row [D] and state [3] are scratch."""
    state[0], state[1] = sink, np.float32(1)
    for d in range(at, at + size, LANES):
        store(out, d, splat(np.float32(0)))
    for i in range(recent):
        fetch_row(window, page, (first + i) % around, size, w_rotated, row, 0)
        _take(queries, at, row, size, scale, state, out)
    for i in range(count):
        index = chosen[i] if listed else i
        fetch_row(data, table[index // per_page], index % per_page, size, rotated, row, 0)
        _take(queries, at, row, size, scale, state, out)
    share = splat(np.float32(1) / state[1])
    for d in range(at, at + size, LANES):
        store(out, d, mul(share, load(out, d)))


@parallel
def _attend(
    queries: Any, rows: int, heads: int, size: int, window: Any, pages: Any, firsts: Any, recents: Any, around: int,
    w_rotated: int, data: Any, tables: Any, of: Any, per_page: int, chosen: Any, listed: bool, counts: Any,
    rotated: int, sink: Any, scale: float, cos: Any, sin: Any, pairs: int, out: Any, threads: int,
) -> None:  # fmt: skip
    for thread in numba.prange(threads):
        row, state = np.empty(size, np.float32), np.empty(3, np.float32)
        for task in range(thread, rows * heads, threads):
            t, at = task // heads, task * size
            _head(
                queries, at, size, window, pages[t], firsts[t], recents[t], around, w_rotated, data, tables[of[t]],
                per_page, chosen[t if listed else 0], listed, counts[t], rotated, sink[task % heads], scale, out, row,
                state,
            )  # fmt: skip
            rotate_pairs(out, at + size - 2 * pairs, cos, sin, t, pairs, -1.0)


def attend(
    query: Tensor, window: Rows, seen: Seen, rows: Rows, sink: Tensor, scale: float, cos: Tensor, sin: Tensor
) -> Tensor:
    """See ``reference.latent_attention.attend``; D a multiple of 16."""
    return attend_by(_attend, query, window, seen, rows, sink, scale, cos, sin)


@parallel
def _choose(
    queries: Any, heads: int, size: int, wide: int, weights: Any, data: Any, tables: Any, of: Any, per_page: int,
    counts: Any, most: int, k: int, out: Any, threads: int,
) -> None:  # fmt: skip
    rows, pieces = counts.size, (most + PIECE - 1) // PIECE
    scores = np.empty((rows, most), np.float32)
    for thread in numba.prange(threads):
        query, padded = np.empty(size * wide, np.float32), np.empty(wide, np.float32)
        tile, tile_scores = np.empty(TILE * size, np.float32), np.empty(TILE * wide, np.float32)
        for task in range(thread, rows * pieces, threads):
            row, first = task // pieces, task % pieces * PIECE
            piece_scores(
                queries, row, heads, size, wide, weights, data, tables[of[row]], per_page, first,
                min(first + PIECE, most), scores[row], query, padded, tile, tile_scores,
            )  # fmt: skip
    for thread in numba.prange(threads):
        scratch = np.empty(most, np.float32)
        for row in range(thread, rows, threads):
            scores[row, counts[row] :] = -np.inf
            best(scores[row], most, k, scratch, out[row])


def choose_of(longest: int) -> Choose:
    """A ``reference.compress.choose`` that scores ``longest`` rows for every sequence that decodes, then masks.

    Rows beyond a sequence's pages are read from page 0, where a padded page table would point. Queries that share a
    sequence are a prompt's, whose shapes nobody captures: they look at what there is.
    """

    def choose(
        queries: Tensor, weights: Tensor, keys: Rows, tables: Tensor, of: Tensor, counts: Tensor, k: int
    ) -> Tensor:
        most = max(longest if len(tables) == len(queries) else 0, int(counts.max()))
        missing = max(0, -(-most // keys.per_page) - tables.shape[1])
        heads, size = queries.shape[1], queries.shape[2]
        out = torch.zeros(len(queries), k, dtype=torch.int32)
        _choose(
            as_array(queries).reshape(-1), heads, size, -(-heads // LANES) * LANES, as_array(weights).reshape(-1),
            as_array(keys.data), as_array(pad(tables, (0, missing))), as_array(of), keys.per_page, as_array(counts),
            most, k, as_array(out), numba.get_num_threads(),
        )  # fmt: skip
        return out

    return choose
