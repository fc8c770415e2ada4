"""Twins of ``reference.experts``: routing, and the chosen experts of few rows, each weight read where it lies.

``many_experts`` has the mix of many rows.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from isotherm.kernels.cpu import many_experts
from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.compiled import kernel, parallel
from isotherm.kernels.cpu.dense import FEW_ROWS, products, share_of, threads_for
from isotherm.kernels.cpu.vector import LANES, add, exponential, load, mul, splat, store
from isotherm.kernels.reference import experts as reference


@kernel
def _affinity(logit: Any) -> Any:
    """sqrt(softplus(x)), softplus linear above 20."""
    return np.sqrt(logit if logit > np.float32(20) else np.log1p(np.exp(logit)))


@kernel
def _weigh(logits: Any, row: int, ids: Any, scale: float, weights: Any) -> None:
    mass = np.float32(0)
    for place in range(ids.shape[1]):
        weights[row, place] = _affinity(logits[row, ids[row, place]])
        mass += weights[row, place]
    for place in range(ids.shape[1]):
        weights[row, place] = weights[row, place] / mass * np.float32(scale)


@kernel
def _route(logits: Any, bias: Any, ids: Any, by_score: bool, scale: float, weights: Any) -> None:
    for row in range(logits.shape[0]):
        if by_score:
            scores = np.empty(logits.shape[1], np.float32)
            for expert in range(scores.size):
                scores[expert] = _affinity(logits[row, expert]) + bias[expert]
            for place in range(ids.shape[1]):
                best = 0
                for expert in range(1, scores.size):
                    if scores[expert] > scores[best]:
                        best = expert
                ids[row, place] = best
                scores[best] = -np.inf
        _weigh(logits, row, ids, scale, weights)


_NO_BIAS = np.empty(0, np.float32)


def route(logits: Tensor, bias: Tensor | None, ids: Tensor | None, active: int, scale: float) -> tuple[Tensor, Tensor]:
    """See ``reference.experts.route``."""
    chosen = torch.empty(len(logits), active, dtype=torch.int64) if ids is None else ids.contiguous()
    weights = torch.empty(len(logits), active)
    _route(
        as_array(logits), _NO_BIAS if bias is None else as_array(bias), as_array(chosen), ids is None, scale,
        as_array(weights),
    )  # fmt: skip
    return chosen, weights


@kernel
def _activate(hidden: Any, at: int, inner: int, limit: float, weight: float) -> None:
    """SwiGLU with both sides limited, times the routing weight: [2 I] to the first I."""
    one, top, bottom = splat(np.float32(1)), np.float32(limit), np.float32(-limit)
    for i in range(at, at + inner):
        hidden[i] = min(hidden[i], top)
        hidden[i + inner] = max(min(hidden[i + inner], top), bottom)
    for i in range(at, at + inner, LANES):
        gate = load(hidden, i)
        below = add(one, exponential(mul(splat(np.float32(-1)), gate)))
        store(hidden, i, mul(mul(gate, splat(np.float32(weight))), load(hidden, i + inner)))
        store(hidden, i + inner, below)
    for i in range(at, at + inner):
        hidden[i] /= hidden[i + inner]


@parallel
def _mix(
    x: Any, rows: int, ids: Any, weights: Any, gate_up: Any, down: Any, channels: int, inner: int, shared: int,
    limit: float, out: Any, threads: int,
) -> None:  # fmt: skip
    active = ids.shape[1] + 1
    hidden = np.empty(rows * active * 2 * inner, np.float32)
    part = np.empty(rows * active * channels, np.float32)
    threads = threads_for(rows * active * 3 * inner * channels, threads)
    for thread in numba.prange(threads):
        first, last = share_of(thread, threads, 2 * inner)
        for task in range(rows * active):
            row, place = task // active, task % active
            expert = ids[row, place] if place < active - 1 else shared
            at = (expert * 2 * inner + first) * channels
            products(gate_up, at, x, row * channels, channels, last - first, hidden, task * 2 * inner + first)
    for task in range(rows * active):
        row, place = task // active, task % active
        weight = weights[row, place] if place < active - 1 else np.float32(1)
        _activate(hidden, task * 2 * inner, inner, limit, weight)
    for thread in numba.prange(threads):
        first, last = share_of(thread, threads, channels)
        for task in range(rows * active):
            row, place = task // active, task % active
            expert = ids[row, place] if place < active - 1 else shared
            at = (expert * channels + first) * inner
            products(down, at, hidden, task * 2 * inner, inner, last - first, part, task * channels + first)
        for row in range(rows):
            for c in range(first, last):
                total = np.float32(0)
                for place in range(active):
                    total += part[(row * active + place) * channels + c]
                out[row * channels + c] = total


def mix(x: Tensor, ids: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor, limit: float) -> Tensor:
    """See ``reference.experts.mix``; C and I multiples of 16."""
    if x.shape[0] > FEW_ROWS:
        if many_experts.fits(down):
            return many_experts.mix(x, ids, weights, gate_up, down, limit)
        return reference.mix(x, ids, weights, gate_up, down, limit)
    out = torch.empty(x.shape)
    _mix(
        as_array(x).reshape(-1), x.shape[0], as_array(ids), as_array(weights), as_array(gate_up).reshape(-1),
        as_array(down).reshape(-1), x.shape[1], down.shape[2], len(down) - 1, limit, as_array(out).reshape(-1),
        numba.get_num_threads(),
    )  # fmt: skip
    return out
