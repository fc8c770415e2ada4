"""From one row of logits to one token: temperature, truncation and the inverse-CDF draw.

Everything works on a single row with numpy, so a row's result cannot depend on its neighbours, and on
CPUs it beats batched torch operators: argmax 3 us against 127, a draw from 49,152 tokens about 100 us
against 220 by cumsum and 290 by multinomial.
"""

from __future__ import annotations

import numpy as np

from isotherm.base.sampling import SamplingParams

_CDF_BLOCK = 256
_FLOORS = (1e-3, 1e-6, 1e-9)
_MAX_TEMPERATURE = 1e30


def relative_weights(logits: np.ndarray, temperature: float) -> np.ndarray:
    """Softmax without the division: ``exp((x - max) / temperature)``, float32 [vocab], largest is 1.

    No temperature overflows: the exponent is never positive, and infinite temperatures are taken as
    a very large one.
    """
    with np.errstate(over="ignore"):  # a difference or quotient beyond float32 is -inf, which is right
        weights: np.ndarray = logits - logits.max()
        weights *= np.float32(1.0 / min(temperature, _MAX_TEMPERATURE))
    np.exp(weights, out=weights)
    return weights


def truncates(params: SamplingParams) -> bool:
    """Whether any rule narrows the candidates."""
    return params.top_k > 0 or params.top_p < 1 or params.min_p > 0


def draw(logits: np.ndarray, params: SamplingParams, uniform: float) -> int:
    """Sample a token. Order of the rules: temperature, top_k, top_p among those, min_p.

    Args:
        logits: float32 [vocab] with a finite maximum; -inf excludes a token.
        uniform: a random number in [0, 1).
    """
    weights = relative_weights(logits, params.temperature)
    if not truncates(params):
        return _draw_from_all(weights, uniform)
    candidates = keep_candidates(weights, params)
    return int(candidates[_invert(weights[candidates], uniform)])


def keep_candidates(weights: np.ndarray, params: SamplingParams) -> np.ndarray:
    """Token ids that survive top_k, top_p and min_p, likeliest first (ties: lower id first)."""
    ids = _likeliest(weights, params)
    if params.top_k > 0:
        ids = ids[: params.top_k]
    if params.top_p < 1:
        total = _mass(weights) if params.top_k == 0 else weights[ids].sum(dtype=np.float64)
        cumulative = weights[ids].cumsum(dtype=np.float64)
        # The smallest set whose mass reaches top_p: a token stays if the mass before it does not.
        ids = ids[: max(1, int(np.searchsorted(cumulative, params.top_p * total)) + 1)]
    if params.min_p > 0:
        ids = ids[weights[ids] >= params.min_p]
    return ids


def _likeliest(weights: np.ndarray, params: SamplingParams) -> np.ndarray:
    """Sorted ids, enough of them for the rules; never one that cannot be drawn.

    Sorting a few hundred candidates instead of the vocabulary is what makes top_p cheap. All tokens
    above a floor are taken, so they are exactly the head of the sorted vocabulary.
    """
    if params.top_k > 0:
        # Not raised to min_p: the mass of all top_k is what top_p is a part of.
        floor = _kth_largest(weights, params.top_k)
    elif params.top_p < 1:
        floor = max(_floor_for_mass(weights, params.top_p), params.min_p)
    else:
        floor = params.min_p
    ids = np.flatnonzero(weights >= floor if floor > 0 else weights)
    return ids[np.argsort(-weights[ids], kind="stable")]


def _kth_largest(weights: np.ndarray, k: int) -> float:
    return 0.0 if k >= len(weights) else float(np.partition(weights, -k)[-k])


def _floor_for_mass(weights: np.ndarray, top_p: float) -> float:
    """A weight above which at least ``top_p`` of the mass lies; 0 when the mass is thinly spread."""
    wanted = top_p * _mass(weights)
    return next((floor for floor in _FLOORS if _mass(weights[weights >= floor]) >= wanted), 0.0)


def _mass(weights: np.ndarray) -> float:
    return float(weights.sum(dtype=np.float64))


def _draw_from_all(weights: np.ndarray, uniform: float) -> int:
    """Inverse CDF over the vocabulary in two levels: find the block of tokens, then the token."""
    whole = len(weights) // _CDF_BLOCK * _CDF_BLOCK
    sums = weights[:whole].reshape(-1, _CDF_BLOCK).sum(axis=1).astype(np.float64)
    if whole < len(weights):
        sums = np.append(sums, weights[whole:].sum(dtype=np.float64))
    ends = sums.cumsum()
    target = uniform * ends[-1]
    block = min(int(np.searchsorted(ends, target, side="right")), _last_positive(sums))
    start = block * _CDF_BLOCK
    before = ends[block] - sums[block]
    inside = weights[start : start + _CDF_BLOCK]
    return start + _search(inside.cumsum(dtype=np.float64), target - before, inside)


def _invert(weights: np.ndarray, uniform: float) -> int:
    cumulative = weights.cumsum(dtype=np.float64)
    return _search(cumulative, uniform * cumulative[-1], weights)


def _search(cumulative: np.ndarray, target: float, weights: np.ndarray) -> int:
    """First index whose cumulative weight exceeds the target; rounding never reaches a weight of 0."""
    return min(int(np.searchsorted(cumulative, target, side="right")), _last_positive(weights))


def _last_positive(weights: np.ndarray) -> int:
    return int(np.flatnonzero(weights)[-1])
