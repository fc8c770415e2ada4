"""Twin of ``reference.latent_attention.attend``: all heads of a row over its window and its chosen rows, tile by tile.

Rows are read from the cache once for all heads (up to 32 of them at a time), in whatever layout they lie. Shares are
kept relative to the largest score so far (online softmax: Milakov & Gimelshein 2018).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.compiled import Function, kernel, parallel
from isotherm.kernels.cpu.latent_rows import fetch_row
from isotherm.kernels.cpu.tile import GROUP, TILE, heads_in_lanes, tile_products, tile_sums
from isotherm.kernels.cpu.turn import rotate_pairs
from isotherm.kernels.cpu.vector import LANES, add, exponential, load, maximum, mul, splat, store
from isotherm.kernels.layouts import Rows
from isotherm.kernels.reference.latent_attention import Seen


@kernel
def _soften(scores: Any, count: int, wide: int, tops: Any, masses: Any, sums: Any, size: int) -> None:
    """Scores [count, wide] to shares, and what was summed before to the new largest score."""
    for head in range(0, wide, LANES):
        old = load(tops, head)
        top = old
        for i in range(count):
            top = maximum(top, load(scores, i * wide + head))
        low = mul(splat(np.float32(-1)), top)
        carry = exponential(add(old, low))
        mass = mul(load(masses, head), carry)
        for i in range(count):
            share = exponential(add(load(scores, i * wide + head), low))
            mass = add(mass, share)
            store(scores, i * wide + head, share)
        store(tops, head, top)
        store(masses, head, mass)
        for d in range(size):
            store(sums, d * wide + head, mul(carry, load(sums, d * wide + head)))


@kernel
def _tile(
    query: Any, wide: int, tile: Any, count: int, size: int, scores: Any, tops: Any, masses: Any, sums: Any
) -> None:
    tile_products(query, wide, tile, 0, count, size, scores)
    _soften(scores, count, wide, tops, masses, sums, size)
    tile_sums(scores, wide, tile, count, size, sums)


@kernel
def attend_row(
    queries: Any, at: int, heads: int, size: int, wide: int, window: Any, page: int, first: int, recent: int,
    around: int, w_rotated: int, data: Any, table: Any, per_page: int, chosen: Any, listed: bool, count: int,
    rotated: int, sink: Any, sink_at: int, scale: float, out: Any, query: Any, tile: Any, scores: Any, sums: Any,
    tops: Any, masses: Any,
) -> None:  # fmt: skip
    """``heads`` heads of one row, from element ``at`` of queries and out; everything after ``out`` is scratch."""
    heads_in_lanes(queries, at, heads, size, wide, np.float32(scale), query)
    for head in range(wide):
        # The sink is a score without a row: it opens the softmax.
        tops[head] = sink[sink_at + head] if head < heads else np.float32(0)
        masses[head] = np.float32(1)
    for d in range(0, size * wide, LANES):
        store(sums, d, splat(np.float32(0)))
    for start in range(0, recent, TILE):
        part = min(TILE, recent - start)
        for i in range(part):
            fetch_row(window, page, (first + start + i) % around, size, w_rotated, tile, i * size)
        _tile(query, wide, tile, part, size, scores, tops, masses, sums)
    for start in range(0, count, TILE):
        part = min(TILE, count - start)
        for i in range(part):
            index = chosen[start + i] if listed else start + i
            fetch_row(data, table[index // per_page], index % per_page, size, rotated, tile, i * size)
        _tile(query, wide, tile, part, size, scores, tops, masses, sums)
    for head in range(heads):
        share = np.float32(1) / masses[head]
        for d in range(size):
            out[at + head * size + d] = sums[d * wide + head] * share


@parallel
def _attend(
    queries: Any, rows: int, heads: int, size: int, window: Any, pages: Any, firsts: Any, recents: Any, around: int,
    w_rotated: int, data: Any, tables: Any, of: Any, per_page: int, chosen: Any, listed: bool, counts: Any,
    rotated: int, sink: Any, scale: float, cos: Any, sin: Any, pairs: int, out: Any, threads: int,
) -> None:  # fmt: skip
    together = min(heads, GROUP)
    wide, groups = (together + LANES - 1) // LANES * LANES, (heads + together - 1) // together
    threads = min(threads, rows * groups)
    for thread in numba.prange(threads):
        query, sums = np.empty(size * wide, np.float32), np.empty(size * wide, np.float32)
        tile, scores = np.zeros(TILE * size, np.float32), np.empty(TILE * wide, np.float32)
        tops, masses = np.empty(wide, np.float32), np.empty(wide, np.float32)
        for task in range(thread, rows * groups, threads):
            row, head = task // groups, task % groups * together
            some, at = min(together, heads - head), (row * heads + head) * size
            attend_row(
                queries, at, some, size, wide, window, pages[row], firsts[row], recents[row], around, w_rotated, data,
                tables[of[row]], per_page, chosen[row if listed else 0], listed, counts[row], rotated, sink, head,
                scale, out, query, tile, scores, sums, tops, masses,
            )  # fmt: skip
            for each in range(some):
                rotate_pairs(out, at + (each + 1) * size - 2 * pairs, cos, sin, row, pairs, -1.0)


NO_CHOICE = np.zeros((1, 1), np.int32)


def attend(
    query: Tensor, window: Rows, seen: Seen, rows: Rows, sink: Tensor, scale: float, cos: Tensor, sin: Tensor
) -> Tensor:
    """See ``reference.latent_attention.attend``; D a multiple of 16."""
    return attend_by(_attend, query, window, seen, rows, sink, scale, cos, sin)


def attend_by(
    function: Function, query: Tensor, window: Rows, seen: Seen, rows: Rows, sink: Tensor, scale: float, cos: Tensor,
    sin: Tensor,
) -> Tensor:  # fmt: skip
    """``attend`` by a compiled function with the parameters of ``_attend``."""
    out = torch.empty(query.shape)
    chosen = NO_CHOICE if seen.chosen is None else as_array(seen.chosen)
    function(
        as_array(query).reshape(-1), query.shape[0], query.shape[1], query.shape[2], as_array(window.data),
        as_array(seen.pages), as_array(seen.firsts), as_array(seen.recents), window.per_page, window.layout.rotated,
        as_array(rows.data), as_array(seen.tables), as_array(seen.of), rows.per_page, chosen, seen.chosen is not None,
        as_array(seen.counts), rows.layout.rotated, as_array(sink), np.float32(scale), as_array(cos).reshape(-1),
        as_array(sin).reshape(-1), cos.shape[1], as_array(out).reshape(-1), numba.get_num_threads(),
    )  # fmt: skip
    return out
