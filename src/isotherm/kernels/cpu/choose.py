"""Twin of ``reference.compress.choose``: scores of the rows that exist, and the best of them, without sorting all."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.compiled import kernel, parallel
from isotherm.kernels.cpu.latent_rows import fetch_row
from isotherm.kernels.cpu.tile import TILE, heads_in_lanes, tile_products
from isotherm.kernels.cpu.vector import LANES, fma, larger, load, splat, total
from isotherm.kernels.layouts import Rows

PIECE = 512
"""Rows of a sequence that are one thread's task: a long one is shared by all."""


@kernel
def _score(weights: Any, at: int, heads: int, wide: int, products: Any, row: int) -> Any:
    """Sum over heads of weight * ReLU(product)."""
    zero = splat(np.float32(0))
    sums = zero
    for head in range(0, wide, LANES):
        sums = fma(load(weights, at + head), larger(load(products, row * wide + head), zero), sums)
    return total(sums)


@kernel
def piece_scores(
    queries: Any, row: int, heads: int, size: int, wide: int, weights: Any, data: Any, table: Any, per_page: int,
    first: int, last: int, out: Any, query: Any, padded: Any, tile: Any, products: Any,
) -> None:  # fmt: skip
    """Scores of rows ``first`` to ``last`` of a sequence; query, padded, tile and products are scratch."""
    heads_in_lanes(queries, row * heads * size, heads, size, wide, np.float32(1), query)
    for head in range(wide):
        padded[head] = weights[row * heads + head] if head < heads else np.float32(0)
    for start in range(first, last, TILE):
        count = min(TILE, last - start)
        for i in range(count):
            index = start + i
            fetch_row(data, table[index // per_page], index % per_page, size, 0, tile, i * size)
        tile_products(query, wide, tile, 0, count, size, products)
        for i in range(count):
            out[start + i] = _score(padded, 0, heads, wide, products, i)


@kernel
def _kth_largest(values: Any, count: int, k: int) -> Any:
    """The k-th largest of values[:count], which are re-ordered (Hoare's selection; equal values split evenly)."""
    low, high, target = 0, count - 1, k - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if target <= j:
            high = j
        elif target >= i:
            low = i
        else:
            break
    return values[target]


@kernel
def best(scores: Any, count: int, k: int, scratch: Any, out: Any) -> None:
    """Indices of the k best of scores[:count], ascending; of equal ones the lower. All of them if there are no more."""
    if count <= k:
        for i in range(count):
            out[i] = i
        return
    for i in range(count):
        scratch[i] = scores[i]
    least = _kth_largest(scratch, count, k)
    equal = k
    for i in range(count):
        equal -= scores[i] > least
    at = 0
    for i in range(count):
        if scores[i] > least:
            out[at] = i
            at += 1
        elif scores[i] == least and equal > 0:
            out[at] = i
            at += 1
            equal -= 1


@parallel
def _choose(
    queries: Any, heads: int, size: int, wide: int, weights: Any, data: Any, tables: Any, of: Any, per_page: int,
    counts: Any, k: int, out: Any, threads: int,
) -> None:  # fmt: skip
    rows, most = counts.size, counts.max()
    pieces = (most + PIECE - 1) // PIECE
    scores = np.empty((rows, most), np.float32)
    threads = threads if rows * pieces > 1 else 1
    for thread in numba.prange(threads):
        query, padded = np.empty(size * wide, np.float32), np.empty(wide, np.float32)
        tile, products = np.empty(TILE * size, np.float32), np.empty(TILE * wide, np.float32)
        for task in range(thread, rows * pieces, threads):
            row, first = task // pieces, task % pieces * PIECE
            if counts[row] > k and first < counts[row]:
                piece_scores(
                    queries, row, heads, size, wide, weights, data, tables[of[row]], per_page, first,
                    min(first + PIECE, counts[row]), scores[row], query, padded, tile, products,
                )  # fmt: skip
    threads = threads if rows > 1 else 1
    for thread in numba.prange(threads):
        scratch = np.empty(most, np.float32)
        for row in range(thread, rows, threads):
            best(scores[row], counts[row], k, scratch, out[row])


def choose(queries: Tensor, weights: Tensor, keys: Rows, tables: Tensor, of: Tensor, counts: Tensor, k: int) -> Tensor:
    """See ``reference.compress.choose``; D a multiple of 16. Nothing is as long as a sequence might become."""
    out = torch.zeros(len(queries), k, dtype=torch.int32)
    heads, size = queries.shape[1], queries.shape[2]
    _choose(
        as_array(queries).reshape(-1), heads, size, -(-heads // LANES) * LANES, as_array(weights).reshape(-1),
        as_array(keys.data), as_array(tables), as_array(of), keys.per_page, as_array(counts), k, as_array(out),
        numba.get_num_threads(),
    )  # fmt: skip
    return out
