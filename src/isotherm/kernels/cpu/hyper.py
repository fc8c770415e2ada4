"""Twins of ``reference.hyper``: reading the streams is one call, its eighty normalisations of a matrix included."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.bits import exp
from isotherm.kernels.cpu.compiled import kernel, parallel
from isotherm.kernels.cpu.dense import products
from isotherm.kernels.cpu.rows import norm_row
from isotherm.kernels.cpu.vector import LANES, fma, load, mul, splat, store, total

FEW_ROWS = 16
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
def _weights(m: Any, base: Any, scale: Any, iterations: int, eps: float, pre: Any, post: Any, comb: Any) -> None:
    count = pre.size
    for s in range(count):
        pre[s] = _sigmoid(m[s] * scale[0] + base[s]) + eps
        post[s] = np.float32(2) * _sigmoid(m[count + s] * scale[1] + base[count + s])
    for j in range(count):
        for k in range(count):
            index = 2 * count + j * count + k
            comb[j, k] = m[index] * scale[2] + base[index]
    _sinkhorn(comb, count, iterations, eps)


@kernel
def _mixes(streams: Any, at: int, size: int, fn: Any, norm_eps: float, m: Any) -> None:
    """fn times the streams, all of them together made root mean square 1."""
    squares = splat(np.float32(0))
    for i in range(0, size, LANES):
        part = load(streams, at + i)
        squares = fma(part, part, squares)
    products(fn, 0, streams, at, size, m.size, m, 0)
    factor = np.float32(1) / np.sqrt(total(squares) / np.float32(size) + norm_eps)
    for i in range(m.size):
        m[i] *= factor


@kernel
def _collapse(streams: Any, at: int, pre: Any, norm: Any, norm_eps: float, x: Any, to: int) -> None:
    """The streams weighted by ``pre``, normalised."""
    channels = norm.size
    for c in range(0, channels, LANES):
        part = mul(splat(pre[0]), load(streams, at + c))
        for s in range(1, pre.size):
            part = fma(splat(pre[s]), load(streams, at + s * channels + c), part)
        store(x, to + c, part)
    norm_row(x, to, norm, norm_eps, x, to)


@kernel
def _read_row(
    streams: Any, row: int, fn: Any, base: Any, scale: Any, norm: Any, iterations: int, eps: float, norm_eps: float,
    x: Any, post: Any, comb: Any, m: Any, pre: Any,
) -> None:  # fmt: skip
    """streams and fn flat; m [(2 + S) S] and pre [S] are scratch."""
    size = pre.size * norm.size
    _mixes(streams, row * size, size, fn, norm_eps, m)
    _weights(m, base, scale, iterations, eps, pre, post, comb)
    _collapse(streams, row * size, pre, norm, norm_eps, x, row * norm.size)


@parallel
def _read(
    streams: Any, fn: Any, base: Any, scale: Any, norm: Any, iterations: int, eps: float, norm_eps: float, x: Any,
    post: Any, comb: Any, threads: int,
) -> None:  # fmt: skip
    rows, count = post.shape
    if rows < FEW_ROWS:
        m, pre = np.empty(base.size, np.float32), np.empty(count, np.float32)
        for row in range(rows):
            _read_row(streams, row, fn, base, scale, norm, iterations, eps, norm_eps, x, post[row], comb[row], m, pre)
    else:
        for thread in numba.prange(threads):
            m, pre = np.empty(base.size, np.float32), np.empty(count, np.float32)
            for row in range(rows * thread // threads, rows * (thread + 1) // threads):
                _read_row(
                    streams, row, fn, base, scale, norm, iterations, eps, norm_eps, x, post[row], comb[row], m, pre
                )


def read(
    streams: Tensor, fn: Tensor, base: Tensor, scale: Tensor, norm: Tensor, iterations: int, eps: float, norm_eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """See ``reference.hyper.read``; streams float32, C a multiple of 16."""
    rows, count, channels = streams.shape
    x, post, comb = (torch.empty(rows, *shape) for shape in ((channels,), (count,), (count, count)))
    _read(
        as_array(streams).reshape(-1), as_array(fn).reshape(-1), as_array(base), as_array(scale), as_array(norm),
        iterations, np.float32(eps), np.float32(norm_eps), as_array(x).reshape(-1), as_array(post), as_array(comb),
        numba.get_num_threads(),
    )  # fmt: skip
    return x, post, comb


@kernel
def _end(
    streams: Any, rows: int, fn: Any, base: Any, scale: Any, norm: Any, eps: float, norm_eps: float, x: Any
) -> None:
    pre, size = np.empty(base.size, np.float32), base.size * norm.size
    for row in range(rows):
        _mixes(streams, row * size, size, fn, norm_eps, pre)
        for s in range(pre.size):
            pre[s] = _sigmoid(pre[s] * scale[0] + base[s]) + eps
        _collapse(streams, row * size, pre, norm, norm_eps, x, row * norm.size)


def end(streams: Tensor, fn: Tensor, base: Tensor, scale: Tensor, norm: Tensor, eps: float, norm_eps: float) -> Tensor:
    """See ``reference.hyper.end``; few rows of a forward give logits, so one thread computes them."""
    x = torch.empty(streams.shape[0], streams.shape[2])
    _end(
        as_array(streams).reshape(-1), streams.shape[0], as_array(fn).reshape(-1), as_array(base), as_array(scale),
        as_array(norm), np.float32(eps), np.float32(norm_eps), as_array(x).reshape(-1),
    )  # fmt: skip
    return x


@kernel
def _expand_row(output: Any, streams: Any, row: int, post: Any, comb: Any, channels: int, out: Any) -> None:
    count = post.size
    at = row * count * channels
    for c in range(0, channels, LANES):
        fresh = load(output, row * channels + c)
        for k in range(count):
            part = mul(splat(post[k]), fresh)
            for j in range(count):
                part = fma(splat(comb[j, k]), load(streams, at + j * channels + c), part)
            store(out, at + k * channels + c, part)


@parallel
def _expand(output: Any, streams: Any, post: Any, comb: Any, channels: int, out: Any) -> None:
    if post.shape[0] < FEW_ROWS:
        for row in range(post.shape[0]):
            _expand_row(output, streams, row, post[row], comb[row], channels, out)
    else:
        for row in numba.prange(post.shape[0]):
            _expand_row(output, streams, row, post[row], comb[row], channels, out)


def expand(output: Tensor, streams: Tensor, post: Tensor, comb: Tensor) -> Tensor:
    """See ``reference.hyper.expand``; output float32 or bfloat16, streams float32, C a multiple of 16."""
    out = torch.empty_like(streams)
    _expand(
        as_array(output.contiguous()).reshape(-1), as_array(streams).reshape(-1), as_array(post), as_array(comb),
        output.shape[1], as_array(out).reshape(-1),
    )  # fmt: skip
    return out
