"""Twins of ``reference.hyper``: forty normalisations of a small matrix are one loop here, eighty calls there."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.bits import exp
from isotherm.kernels.cpu.compiled import kernel, parallel
from isotherm.kernels.reference.hyper import normed

FEW_ROWS = 32
"""Below it, waking other threads takes longer than the work."""


@kernel
def _sigmoid(x: float) -> Any:
    return np.float32(1) / (np.float32(1) + exp(-x))


@kernel
def _sinkhorn(comb: Any, count: int, iterations: int, eps: float) -> None:
    """Rows to shares (softmax), then columns and rows to sum 1 by turns; the last step is over columns."""
    for j in range(count):
        top, mass = comb[j].max(), np.float32(0)
        for k in range(count):
            comb[j, k] = exp(comb[j, k] - top)
            mass += comb[j, k]
        for k in range(count):
            comb[j, k] = comb[j, k] / mass + eps
    for step in range(2 * iterations - 1):
        for one in range(count):
            mass = np.float32(0)
            for other in range(count):
                mass += comb[one, other] if step % 2 else comb[other, one]
            share = np.float32(1) / (mass + eps)
            for other in range(count):
                if step % 2:
                    comb[one, other] *= share
                else:
                    comb[other, one] *= share


@kernel
def _row(m: Any, base: Any, scale: Any, iterations: int, eps: float, pre: Any, post: Any, comb: Any) -> None:
    count = pre.size
    for s in range(count):
        pre[s] = _sigmoid(m[s] * scale[0] + base[s]) + eps
        post[s] = np.float32(2) * _sigmoid(m[count + s] * scale[1] + base[count + s])
    for j in range(count):
        for k in range(count):
            index = 2 * count + j * count + k
            comb[j, k] = m[index] * scale[2] + base[index]
    _sinkhorn(comb, count, iterations, eps)


@parallel
def _rows(m: Any, base: Any, scale: Any, iterations: int, eps: float, pre: Any, post: Any, comb: Any, few: int) -> None:
    if m.shape[0] < few:
        for row in range(m.shape[0]):
            _row(m[row], base, scale, iterations, eps, pre[row], post[row], comb[row])
    else:
        for row in numba.prange(m.shape[0]):
            _row(m[row], base, scale, iterations, eps, pre[row], post[row], comb[row])


def mix(
    streams: Tensor, fn: Tensor, base: Tensor, scale: Tensor, iterations: int, eps: float, norm_eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """See ``reference.hyper.mix``."""
    rows, count = streams.shape[0], streams.shape[1]
    m = F.linear(normed(streams, norm_eps), fn)
    pre, post, comb = (torch.empty(rows, *shape) for shape in ((count,), (count,), (count, count)))
    _rows(
        as_array(m), as_array(base), as_array(scale), iterations, np.float32(eps), as_array(pre), as_array(post),
        as_array(comb), FEW_ROWS,
    )  # fmt: skip
    return pre, post, comb


@kernel
def _collapse_row(streams: Any, pre: Any, out: Any) -> None:
    for c in range(out.size):
        total = np.float32(0)
        for s in range(pre.size):
            total += pre[s] * streams[s, c]
        out[c] = total


@parallel
def _collapse(streams: Any, pre: Any, out: Any, few: int) -> None:
    if out.shape[0] < few:
        for row in range(out.shape[0]):
            _collapse_row(streams[row], pre[row], out[row])
    else:
        for row in numba.prange(out.shape[0]):
            _collapse_row(streams[row], pre[row], out[row])


def collapse(streams: Tensor, pre: Tensor) -> Tensor:
    """See ``reference.hyper.collapse``; streams float32."""
    out = torch.empty(streams.shape[0], streams.shape[2])
    _collapse(as_array(streams), as_array(pre), as_array(out), FEW_ROWS)
    return out


@kernel
def _expand_row(output: Any, streams: Any, post: Any, comb: Any, out: Any) -> None:
    count = post.size
    for k in range(count):
        for c in range(output.size):
            total = post[k] * output[c]
            for j in range(count):
                total += comb[j, k] * streams[j, c]
            out[k, c] = total


@parallel
def _expand(output: Any, streams: Any, post: Any, comb: Any, out: Any, few: int) -> None:
    if out.shape[0] < few:
        for row in range(out.shape[0]):
            _expand_row(output[row], streams[row], post[row], comb[row], out[row])
    else:
        for row in numba.prange(out.shape[0]):
            _expand_row(output[row], streams[row], post[row], comb[row], out[row])


def expand(output: Tensor, streams: Tensor, post: Tensor, comb: Tensor) -> Tensor:
    """See ``reference.hyper.expand``; streams float32."""
    out = torch.empty_like(streams)
    _expand(
        as_array(output.float().contiguous()),
        as_array(streams),
        as_array(post),
        as_array(comb),
        as_array(out),
        FEW_ROWS,
    )
    return out
