"""From rows of logits to tokens: temperature, truncation and the inverse-CDF draw.

A row's result never depends on its neighbours. The weights of all rows are computed at once by the machine's threads;
what follows looks at few numbers of one row, where numpy beats batched torch operators (argmax 9 us a row of 49,152
against 107).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from isotherm.base.sampling import SamplingParams
from isotherm.kernels.cpu.weights import RUN, relative_weights

_FLOORS = (1e-3, 1e-6, 1e-9)
_MAX_TEMPERATURE = 1e30


class BadLogits(Exception):
    """A row has no finite maximum (NaN or infinity): the model computed nonsense for this sequence."""


def likeliest(logits: np.ndarray) -> int:
    """The greedy choice; ties go to the lower id. Raises BadLogits."""
    best = int(logits.argmax())
    _check_finite(logits[best])
    return best


class Weights(NamedTuple):
    """One row after its temperature: float32 [vocab], the largest 1, and sums over runs of ``RUN`` tokens."""

    each: np.ndarray
    sums: np.ndarray
    highest: np.floating


def weigh(logits: np.ndarray, temperatures: list[float]) -> list[Weights]:
    """Softmax without the division of each row of float32 [rows, vocab]: ``exp((x - max) / temperature)``.

    No temperature overflows: the exponent is never positive, and infinite temperatures are taken as a very large one.
    """
    factors = np.array([1.0 / min(temperature, _MAX_TEMPERATURE) for temperature in temperatures], np.float32)
    return [Weights(*row) for row in zip(*relative_weights(np.ascontiguousarray(logits), factors), strict=True)]


def _check_finite(highest: np.floating) -> None:
    if not math.isfinite(highest):
        raise BadLogits(f"the largest logit is {highest}")


def truncates(params: SamplingParams) -> bool:
    """Whether any rule narrows the candidates."""
    return params.top_k > 0 or params.top_p < 1 or params.min_p > 0


def draw(weights: Weights, params: SamplingParams, uniform: float) -> int:
    """Sample a token. Order of the rules: temperature (in the weights), top_k, top_p among those, min_p.

    Args:
        uniform: a random number in [0, 1).

    Raises BadLogits.
    """
    _check_finite(weights.highest)
    if not truncates(params):
        return _draw_from_all(weights, uniform)
    candidates = keep_candidates(weights.each, params)
    return int(candidates[_invert(weights.each[candidates], uniform)])


def keep_candidates(weights: np.ndarray, params: SamplingParams) -> np.ndarray:
    """Token ids that survive top_k, top_p and min_p, likeliest first (ties: lower id first)."""
    total = weights.sum() if params.top_p < 1 and params.top_k == 0 else None
    ids = _likeliest(weights, params, total)
    if params.top_k > 0:
        ids = ids[: params.top_k]
    if params.top_p < 1:
        cumulative = weights[ids].cumsum(dtype=np.float64)
        total = cumulative[-1] if total is None else total
        # The smallest set whose mass reaches top_p: a token stays if the mass before it does not.
        ids = ids[: max(1, int(np.searchsorted(cumulative, params.top_p * total)) + 1)]
    if params.min_p > 0:
        ids = ids[weights[ids] >= params.min_p]
    return ids


def _likeliest(weights: np.ndarray, params: SamplingParams, total: np.floating | None) -> np.ndarray:
    """Sorted ids, enough of them for the rules; never one that cannot be drawn. ``total`` is for top_p alone.

    Sorting a few hundred candidates instead of the vocabulary is what makes top_p cheap. All tokens
    above a floor are taken, so they are exactly the head of the sorted vocabulary.
    """
    if params.top_k > 0:
        # Not narrowed by min_p: the mass of all top_k is what top_p is a part of.
        ids = _above(weights, _kth_largest(weights, params.top_k))
    elif total is not None:
        ids = _enough_mass(weights, params.top_p * total)
    else:
        ids = _above(weights, params.min_p)
    return ids[np.argsort(-weights[ids], kind="stable")]


def _enough_mass(weights: np.ndarray, wanted: np.floating) -> np.ndarray:
    """All ids above the first floor that leaves so much of the mass; every id when it is thinly spread."""
    for floor in _FLOORS:
        ids = _above(weights, floor)
        if weights[ids].sum() >= wanted:
            return ids
    return _above(weights, 0)


def _above(weights: np.ndarray, floor: float) -> np.ndarray:
    """Ids of weights of at least ``floor`` that are not 0."""
    return np.flatnonzero(weights >= floor if floor > 0 else weights)


def _kth_largest(weights: np.ndarray, k: int) -> float:
    return 0.0 if k >= len(weights) else float(np.partition(weights, -k)[-k])


def _draw_from_all(weights: Weights, uniform: float) -> int:
    """Inverse CDF over the vocabulary in two levels: find the run of tokens, then the token."""
    ends = weights.sums.cumsum(dtype=np.float64)
    target = uniform * ends[-1]
    run = min(int(np.searchsorted(ends, target, side="right")), _last_positive(weights.sums))
    before = ends[run - 1] if run else 0.0
    inside = weights.each[run * RUN : (run + 1) * RUN]
    return run * RUN + _search(inside.cumsum(dtype=np.float64), target - before, inside)


def _invert(weights: np.ndarray, uniform: float) -> int:
    cumulative = weights.cumsum(dtype=np.float64)
    return _search(cumulative, uniform * cumulative[-1], weights)


def _search(cumulative: np.ndarray, target: float, weights: np.ndarray) -> int:
    """First index whose cumulative weight exceeds the target; rounding never reaches a weight of 0."""
    return min(int(np.searchsorted(cumulative, target, side="right")), _last_positive(weights))


def _last_positive(weights: np.ndarray) -> int:
    return int(np.flatnonzero(weights)[-1])
