"""Products of a tile of rows with all heads of a query: heads lie in the lanes, so rows are read as they are stored.

A query is kept as [D, H] with H filled up to whole vectors, and so are its products: [rows, H].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isotherm.kernels.cpu.compiled import kernel
from isotherm.kernels.cpu.vector import LANES, fma, load, splat, store

TILE = 32
"""Rows that are fetched and multiplied together."""
GROUP = 2 * LANES
"""Heads that are summed side by side where there are more than one vector of them."""


@kernel
def heads_in_lanes(query: Any, at: int, heads: int, size: int, wide: int, factor: float, out: Any) -> None:
    """query[at:] as [heads, size] to out [size, wide], times ``factor``; lanes beyond the heads are zero."""
    for d in range(size):
        for head in range(heads):
            out[d * wide + head] = query[at + head * size + d] * factor
        for head in range(heads, wide):
            out[d * wide + head] = np.float32(0)


@kernel
def _pair_of_vectors(query: Any, q_at: int, wide: int, keys: Any, k_at: int, size: int, out: Any, to: int) -> None:
    """Four keys, 32 heads."""
    zero = splat(np.float32(0))
    a, b, c, d, e, f, g, h = zero, zero, zero, zero, zero, zero, zero, zero
    for i in range(size):
        low, high = load(query, q_at + i * wide), load(query, q_at + i * wide + LANES)
        one, two = splat(keys[k_at + i]), splat(keys[k_at + size + i])
        three, four = splat(keys[k_at + 2 * size + i]), splat(keys[k_at + 3 * size + i])
        a, b, c, d = fma(one, low, a), fma(one, high, b), fma(two, low, c), fma(two, high, d)
        e, f, g, h = fma(three, low, e), fma(three, high, f), fma(four, low, g), fma(four, high, h)
    store(out, to, a)
    store(out, to + LANES, b)
    store(out, to + wide, c)
    store(out, to + wide + LANES, d)
    store(out, to + 2 * wide, e)
    store(out, to + 2 * wide + LANES, f)
    store(out, to + 3 * wide, g)
    store(out, to + 3 * wide + LANES, h)


@kernel
def _one_vector(query: Any, q_at: int, wide: int, keys: Any, k_at: int, size: int, out: Any, to: int) -> None:
    """Eight keys, 16 heads."""
    zero = splat(np.float32(0))
    a, b, c, d, e, f, g, h = zero, zero, zero, zero, zero, zero, zero, zero
    for i in range(size):
        part = load(query, q_at + i * wide)
        a = fma(splat(keys[k_at + i]), part, a)
        b = fma(splat(keys[k_at + size + i]), part, b)
        c = fma(splat(keys[k_at + 2 * size + i]), part, c)
        d = fma(splat(keys[k_at + 3 * size + i]), part, d)
        e = fma(splat(keys[k_at + 4 * size + i]), part, e)
        f = fma(splat(keys[k_at + 5 * size + i]), part, f)
        g = fma(splat(keys[k_at + 6 * size + i]), part, g)
        h = fma(splat(keys[k_at + 7 * size + i]), part, h)
    store(out, to, a)
    store(out, to + wide, b)
    store(out, to + 2 * wide, c)
    store(out, to + 3 * wide, d)
    store(out, to + 4 * wide, e)
    store(out, to + 5 * wide, f)
    store(out, to + 6 * wide, g)
    store(out, to + 7 * wide, h)


@kernel
def tile_products(query: Any, wide: int, keys: Any, k_at: int, count: int, size: int, out: Any) -> None:
    """out [count, wide] = keys [count, size] from element ``k_at`` . query [size, wide].

    Whole eights of keys are computed: keys and out have room for them.
    """
    for first in range(0, count, 8):
        group = 0
        while group + GROUP <= wide:
            for half in range(2):
                key = first + 4 * half
                _pair_of_vectors(query, group, wide, keys, k_at + key * size, size, out, key * wide + group)
            group += GROUP
        if group < wide:
            _one_vector(query, group, wide, keys, k_at + first * size, size, out, first * wide + group)


@kernel
def tile_sums(shares: Any, wide: int, keys: Any, count: int, size: int, out: Any) -> None:
    """out [size, wide] += keys [count, size], transposed, . shares [count, wide]; size a multiple of 8."""
    for group in range(0, wide, LANES):
        for d in range(0, size, 8):
            to = d * wide + group
            a, b, c, e = load(out, to), load(out, to + wide), load(out, to + 2 * wide), load(out, to + 3 * wide)
            to += 4 * wide
            f, g, h, i = load(out, to), load(out, to + wide), load(out, to + 2 * wide), load(out, to + 3 * wide)
            for j in range(count):
                part, at = load(shares, j * wide + group), j * size + d
                a, b = fma(splat(keys[at]), part, a), fma(splat(keys[at + 1]), part, b)
                c, e = fma(splat(keys[at + 2]), part, c), fma(splat(keys[at + 3]), part, e)
                f, g = fma(splat(keys[at + 4]), part, f), fma(splat(keys[at + 5]), part, g)
                h, i = fma(splat(keys[at + 6]), part, h), fma(splat(keys[at + 7]), part, i)
            to -= 4 * wide
            store(out, to, a)
            store(out, to + wide, b)
            store(out, to + 2 * wide, c)
            store(out, to + 3 * wide, e)
            to += 4 * wide
            store(out, to, f)
            store(out, to + wide, g)
            store(out, to + 2 * wide, h)
            store(out, to + 3 * wide, i)
