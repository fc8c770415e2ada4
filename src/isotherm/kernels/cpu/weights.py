"""Unnormalised softmax of many rows of logits, with partial sums from which one token can be drawn at once."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from isotherm.kernels.cpu.compiled import kernel, parallel
from isotherm.kernels.cpu.vector import LANES, add, exponential, highest, load, maximum, mul, splat, store, total

RUN = 256
"""Neighbouring tokens whose weights are summed together."""

Floats = NDArray[np.float32]


@kernel
def _row(logits: Any, at: int, size: int, factor: float, weights: Any, sums: Any, to: int) -> float:
    """One row; returns its highest logit.

    The last few numbers that fill no vector are computed in one that is filled up: a loop over them would be compiled
    to several forms whose choice, and so the order of the sum, depends on where the arrays lie.
    """
    whole = size // LANES * LANES
    rest = np.full(LANES, np.float32(-np.inf))
    for i in range(whole, size):
        rest[i - whole] = logits[at + i]
    tops = load(rest, 0)
    for i in range(0, whole, LANES):
        tops = maximum(tops, load(logits, at + i))
    top = highest(tops)
    scale, shift = splat(factor), splat(-top)
    for run in range((size + RUN - 1) // RUN):
        first, last = run * RUN, min((run + 1) * RUN, whole)
        mass = splat(np.float32(0))
        for i in range(first, last, LANES):
            part = exponential(mul(scale, add(load(logits, at + i), shift)))
            store(weights, at + i, part)
            mass = add(mass, part)
        if whole < (run + 1) * RUN:
            part = exponential(mul(scale, add(load(rest, 0), shift)))
            mass = add(mass, part)
            store(rest, 0, part)
            for i in range(whole, size):
                weights[at + i] = rest[i - whole]
        sums[to + run] = total(mass)
    return top


@parallel
def _rows(logits: Any, size: int, factors: Any, weights: Any, sums: Any, tops: Any) -> None:
    runs = sums.size // factors.size
    for row in numba.prange(factors.size):
        tops[row] = _row(logits, row * size, size, factors[row], weights, sums, row * runs)


def relative_weights(logits: Floats, factors: Floats) -> tuple[Floats, Floats, Floats]:
    """exp(factor * (logit - highest)) of float32 rows [R, V], C-contiguous; factors float32 [R] are 1 / temperature.

    Returns the weights [R, V], 0 where they are below 1e-37; their sums over runs of 256 tokens [R, ceil(V / 256)]; and
    the highest logits [R], not finite if the row holds a NaN or a positive infinity: its weights mean nothing then.
    """
    rows, vocabulary = logits.shape
    weights, sums = np.empty_like(logits), np.empty((rows, -(-vocabulary // RUN)), np.float32)
    tops = np.empty(rows, np.float32)
    _rows(logits.reshape(-1), vocabulary, factors, weights.reshape(-1), sums.reshape(-1), tops)
    return weights, sums, tops
