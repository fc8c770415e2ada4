"""Row-wise operations between the linear layers, the machine's threads over rows."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from isotherm.base.block import BLOCK_SIZE
from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.compiled import kernel, parallel
from isotherm.kernels.cpu.scattered import scatter, weave
from isotherm.kernels.cpu.vector import LANES, add, fma, load, mul, sigmoid, splat, store, total


@kernel
def norm_row(x: Any, at: int, weight: Any, eps: float, out: Any, to: int) -> None:
    """RMSNorm of float32 ``x[at : at + C]`` into ``out[to : to + C]``; C, the length of weight, a multiple of 16."""
    size = weight.size
    squares = splat(np.float32(0))
    for c in range(0, size, LANES):
        part = load(x, at + c)
        squares = fma(part, part, squares)
    factor = splat(np.float32(1) / np.sqrt(total(squares) / np.float32(size) + eps))
    for c in range(0, size, LANES):
        store(out, to + c, mul(mul(load(x, at + c), factor), load(weight, c)))


@kernel
def add_row(x: Any, at: int, y: Any, by: int, size: int) -> None:
    """x[at : at + size] += y[by : by + size], x float32."""
    for c in range(0, size, LANES):
        store(x, at + c, add(load(x, at + c), load(y, by + c)))


@kernel
def silu_mul_row(gate_up: Any, at: int, size: int, out: Any, to: int) -> None:
    """SwiGLU of one row: gate_up[at : at + 2 I] -> out[to : to + I]; I a multiple of 16."""
    for i in range(0, size, LANES):
        gate = load(gate_up, at + i)
        store(out, to + i, mul(mul(gate, sigmoid(gate)), load(gate_up, at + size + i)))


@kernel
def rotate(x: Any, at: int, cos: Any, sin: Any, row: int, size: int, e: int) -> tuple[Any, Any]:
    """Sixteen numbers of a head's first half from ``e`` on, rotated with their partners in the second."""
    half = size // 2
    first, second = load(x, at + e), load(x, at + half + e)
    c, s = load(cos, row * half + e), load(sin, row * half + e)
    return fma(first, c, mul(mul(second, s), splat(np.float32(-1)))), fma(second, c, mul(first, s))


@kernel
def place_row(
    qkv: Any, at: int, heads: int, cos: Any, sin: Any, row: int, slot: int, keys: Any, values: Any, query: Any, to: int
) -> None:
    """Rotate a row's queries into ``query[to :]``, and its keys and values into their slot of the cache.

    E is a multiple of 32. In a block keys are [E/P, 32, P] and values [32/P, E, P].
    """
    groups, size, pair = values.shape[1], values.shape[3], values.shape[4]
    flat_keys, flat_values = keys.reshape(-1), values.reshape(-1)
    half, offset = size // 2, slot % BLOCK_SIZE
    for head in range(heads):
        for e in range(0, half, LANES):
            first, second = rotate(qkv, at + head * size, cos, sin, row, size, e)
            store(query, to + head * size + e, first)
            store(query, to + head * size + half + e, second)
    for head in range(groups):
        base = ((slot // BLOCK_SIZE) * groups + head) * size * BLOCK_SIZE
        for e in range(0, half, LANES):
            first, second = rotate(qkv, at + (heads + head) * size, cos, sin, row, size, e)
            scatter(flat_keys, base + e * BLOCK_SIZE + offset * pair, BLOCK_SIZE * pair, first)
            scatter(flat_keys, base + (half + e) * BLOCK_SIZE + offset * pair, BLOCK_SIZE * pair, second)
        source = at + (heads + groups + head) * size
        for e in range(0, size, LANES):
            place = base + (offset // pair * size + e) * pair + offset % pair
            weave(flat_values, place, load(qkv, source + e))


@parallel
def _add_norm(x: Any, y: Any, weight: Any, eps: float, out: Any) -> None:
    size = weight.size
    for row in numba.prange(x.size // size):
        if y.size:
            add_row(x, row * size, y, row * size, size)
        norm_row(x, row * size, weight, eps, out, row * size)


@parallel
def _silu_mul(gate_up: Any, size: int, out: Any) -> None:
    for row in numba.prange(out.size // size):
        silu_mul_row(gate_up, row * 2 * size, size, out, row * size)


@parallel
def _place(qkv: Any, heads: int, cos: Any, sin: Any, slots: Any, keys: Any, values: Any, query: Any) -> None:
    groups, size = values.shape[1], values.shape[3]
    width = (heads + 2 * groups) * size
    for row in numba.prange(slots.size):
        place_row(qkv, row * width, heads, cos, sin, row, slots[row], keys, values, query, row * heads * size)


def add_rms_norm(x: Tensor, y: Tensor | None, weight: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    """Twin of ``reference.ops.add_rms_norm``: x float32 [T, C] is updated in place."""
    out = torch.empty_like(x, dtype=dtype)
    other = out[:0] if y is None else y
    _add_norm(_flat(x), _flat(other), as_array(weight), np.float32(eps), _flat(out))
    return out


def silu_mul(gate_up: Tensor) -> Tensor:
    """Twin of ``reference.ops.silu_mul``."""
    size = gate_up.shape[1] // 2
    out = gate_up.new_empty((gate_up.shape[0], size))
    _silu_mul(_flat(gate_up), size, _flat(out))
    return out


def rotate_and_store(
    qkv: Tensor, heads: int, cos: Tensor, sin: Tensor, slots: Tensor, k_cache: Tensor, v_cache: Tensor
) -> Tensor:
    """Twin of ``reference.ops.rotate_and_store``; the queries come back in float32."""
    query = torch.empty((qkv.shape[0], heads, v_cache.shape[3]), dtype=torch.float32)
    _place(
        _flat(qkv),
        heads,
        _flat(cos),
        _flat(sin),
        as_array(slots),
        as_array(k_cache),
        as_array(v_cache),
        _flat(query),
    )
    return query


def _flat(tensor: Tensor) -> Any:
    return as_array(tensor).reshape(-1)
