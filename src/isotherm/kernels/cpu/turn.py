"""Twin of ``reference.rotary.turn``: norm and rotation of latent vectors in one pass."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.compiled import kernel, parallel
from isotherm.kernels.cpu.vector import LANES, fma, load, mul, splat, store, total

FEW_ROWS = 16


@kernel
def rotate_pairs(x: Any, at: int, cos: Any, sin: Any, row: int, pairs: int, sign: float) -> None:
    """Rotate numbers x[at : at + 2 pairs] in place by row ``row`` of flat cos and sin; ``sign`` -1 undoes it."""
    for pair in range(pairs):
        c, s = cos[row * pairs + pair], np.float32(sign) * sin[row * pairs + pair]
        even, odd = x[at + 2 * pair], x[at + 2 * pair + 1]
        x[at + 2 * pair] = even * c - odd * s
        x[at + 2 * pair + 1] = odd * c + even * s


@kernel
def norm_into(x: Any, at: int, size: int, weight: Any, eps: float, out: Any, to: int) -> None:
    """RMSNorm of x[at : at + size], times the weight if it has numbers; size a multiple of 16, any dtype in."""
    squares = splat(np.float32(0))
    for c in range(0, size, LANES):
        part = load(x, at + c)
        squares = fma(part, part, squares)
    factor = splat(np.float32(1) / np.sqrt(total(squares) / np.float32(size) + np.float32(eps)))
    if weight.size:
        for c in range(0, size, LANES):
            store(out, to + c, mul(mul(load(x, at + c), factor), load(weight, c)))
    else:
        for c in range(0, size, LANES):
            store(out, to + c, mul(load(x, at + c), factor))


@kernel
def _row(
    x: Any, row: int, vectors: int, size: int, weight: Any, normed: bool, eps: float, cos: Any, sin: Any, pairs: int,
    out: Any,
) -> None:  # fmt: skip
    for vector in range(vectors):
        at = (row * vectors + vector) * size
        if normed:
            norm_into(x, at, size, weight, eps, out, at)
        else:
            for c in range(0, size, LANES):
                store(out, at + c, load(x, at + c))
        rotate_pairs(out, at + size - 2 * pairs, cos, sin, row, pairs, 1.0)


@parallel
def _turn(
    x: Any, rows: int, vectors: int, size: int, weight: Any, normed: bool, eps: float, cos: Any, sin: Any, pairs: int,
    out: Any,
) -> None:  # fmt: skip
    if rows < FEW_ROWS:
        for row in range(rows):
            _row(x, row, vectors, size, weight, normed, eps, cos, sin, pairs, out)
    else:
        for row in numba.prange(rows):
            _row(x, row, vectors, size, weight, normed, eps, cos, sin, pairs, out)


_NONE = np.empty(0, np.float32)


def turn(x: Tensor, cos: Tensor, sin: Tensor, eps: float | None = None, weight: Tensor | None = None) -> Tensor:
    """See ``reference.rotary.turn``; x float32 or bfloat16, D a multiple of 16."""
    out = torch.empty(x.shape)
    rows, size, pairs = x.shape[0], x.shape[-1], cos.shape[-1]
    _turn(
        as_array(x.contiguous()).reshape(-1), rows, x[0].numel() // size if rows else 0, size,
        _NONE if weight is None else as_array(weight), eps is not None, np.float32(eps or 0.0),
        as_array(cos).reshape(-1), as_array(sin).reshape(-1), pairs, as_array(out).reshape(-1),
    )  # fmt: skip
    return out


@parallel
def _norm(x: Any, rows: int, size: int, weight: Any, eps: float, out: Any) -> None:
    if rows < FEW_ROWS:
        for row in range(rows):
            norm_into(x, row * size, size, weight, eps, out, row * size)
    else:
        for row in numba.prange(rows):
            norm_into(x, row * size, size, weight, eps, out, row * size)


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """See ``reference.rotary.norm``; x float32 or bfloat16 [T, C], C a multiple of 16."""
    out = torch.empty(x.shape)
    _norm(
        as_array(x.contiguous()).reshape(-1), x.shape[0], x.shape[1], as_array(weight), np.float32(eps),
        as_array(out).reshape(-1),
    )  # fmt: skip
    return out
