"""All layers of a decode step of few rows in a single compiled call.

Between the linear layers a step does some ten small things a layer; called one by one from Python they cost as much as
the weights' own time for a single sequence. Here the threads meet at the end of each phase and nothing else intervenes.
Every row is computed by the same operations in the same order whatever rows are beside it.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from torch import Tensor

from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.attention import attend_share, scratch_sizes
from isotherm.kernels.cpu.compiled import kernel, parallel
from isotherm.kernels.cpu.few_rows import prepare_row, share_tiles
from isotherm.kernels.cpu.rows import add_row, norm_row, place_row, silu_mul_row
from isotherm.kernels.cpu.stack_weights import DOWN, GATE_UP, OUTPUT, QKV, StackWeights

FEW_ROWS = 3
"""Up to this many rows, row-wise phases run on one thread: waking the others would take longer."""


@kernel
def _enter(
    row: int, bits: int, x: Any, addend: Any, fresh: bool, norm: Any, eps: float, hidden: Any, quants: Any,
    factors: Any, narrow: Any,
) -> None:  # fmt: skip
    """Finish the previous sublayer of a row and prepare the next: add, norm, round to what its weights multiply."""
    size = norm.size
    if not fresh:
        add_row(x, row * size, addend, row * size, size)
    norm_row(x, row * size, norm, eps, hidden, row * size)
    prepare_row(bits, hidden, row * size, size, quants, factors, narrow, row)


@kernel
def _activate(
    row: int, bits: int, gate_up: Any, size: int, hidden: Any, quants: Any, factors: Any, narrow: Any
) -> None:
    """SwiGLU of a row, rounded to what the next weights multiply."""
    silu_mul_row(gate_up, row * 2 * size, size, hidden, row * size)
    prepare_row(bits, hidden, row * size, size, quants, factors, narrow, row)


@parallel
def _stack(
    x: Any, cos: Any, sin: Any, slots: Any, tables: Any, lengths: Any, keys: Any, values: Any, data: Any, scales: Any,
    biases: Any, where: Any, attention_norms: Any, mlp_norms: Any, heads: int, inner: int, eps: float, scale: float,
    threads: int,
) -> None:  # fmt: skip
    """x float32 [D * C], in and out."""
    rows, layers = lengths.size, attention_norms.shape[0]
    hidden_size, groups, size = attention_norms.shape[1], values.shape[2], values.shape[4]
    width = (heads + 2 * groups) * size
    attended_size = heads * size
    wide = max(inner, attended_size, hidden_size)
    hidden, addend = np.empty(rows * wide, np.float32), np.empty(rows * hidden_size, np.float32)
    quants, factors = np.empty(rows * wide, np.int8), np.empty(rows * wide // 16, np.float32)
    narrow = np.empty(rows * wide, np.uint16)
    qkv, query = np.empty(rows * width, np.float32), np.empty(rows * attended_size, np.float32)
    attended, gate_up = np.empty(rows * attended_size, np.float32), np.empty(rows * 2 * inner, np.float32)
    scratch_size, packed_size = scratch_sizes(heads, size)
    scratch = np.empty((threads, scratch_size), np.float32)
    packed = np.empty((threads, packed_size), values.dtype)
    row_threads = threads if rows > FEW_ROWS else 1
    for layer in range(layers):
        linear = where[layer]
        if row_threads == 1:
            for row in range(rows):
                _enter(
                    row, linear[QKV, 0], x, addend, layer == 0, attention_norms[layer], eps, hidden, quants, factors,
                    narrow,
                )  # fmt: skip
        else:
            for row in numba.prange(rows):
                _enter(
                    row, linear[QKV, 0], x, addend, layer == 0, attention_norms[layer], eps, hidden, quants, factors,
                    narrow,
                )  # fmt: skip
        for thread in numba.prange(threads):
            share_tiles(
                thread, threads, linear[QKV], data, scales, biases, quants, factors, narrow, rows, hidden_size, qkv,
                width,
            )  # fmt: skip
        if row_threads == 1:
            for row in range(rows):
                place_row(
                    qkv, row * width, heads, cos, sin, row, slots[row], keys[layer], values[layer], query,
                    row * attended_size,
                )  # fmt: skip
        else:
            for row in numba.prange(rows):
                place_row(
                    qkv, row * width, heads, cos, sin, row, slots[row], keys[layer], values[layer], query,
                    row * attended_size,
                )  # fmt: skip
        for thread in numba.prange(threads):
            attend_share(
                thread, threads, query, heads, packed[thread], keys[layer], values[layer], tables, lengths, scale,
                attended, scratch[thread],
            )  # fmt: skip
        if row_threads == 1:
            for row in range(rows):
                prepare_row(
                    linear[OUTPUT, 0], attended, row * attended_size, attended_size, quants, factors, narrow, row
                )
        else:
            for row in numba.prange(rows):
                prepare_row(
                    linear[OUTPUT, 0], attended, row * attended_size, attended_size, quants, factors, narrow, row
                )
        for thread in numba.prange(threads):
            share_tiles(
                thread, threads, linear[OUTPUT], data, scales, biases, quants, factors, narrow, rows, attended_size,
                addend, hidden_size,
            )  # fmt: skip
        if row_threads == 1:
            for row in range(rows):
                _enter(
                    row, linear[GATE_UP, 0], x, addend, False, mlp_norms[layer], eps, hidden, quants, factors, narrow
                )
        else:
            for row in numba.prange(rows):
                _enter(
                    row, linear[GATE_UP, 0], x, addend, False, mlp_norms[layer], eps, hidden, quants, factors, narrow
                )
        for thread in numba.prange(threads):
            share_tiles(
                thread, threads, linear[GATE_UP], data, scales, biases, quants, factors, narrow, rows, hidden_size,
                gate_up, 2 * inner,
            )  # fmt: skip
        if row_threads == 1:
            for row in range(rows):
                _activate(row, linear[DOWN, 0], gate_up, inner, hidden, quants, factors, narrow)
        else:
            for row in numba.prange(rows):
                _activate(row, linear[DOWN, 0], gate_up, inner, hidden, quants, factors, narrow)
        for thread in numba.prange(threads):
            share_tiles(
                thread, threads, linear[DOWN], data, scales, biases, quants, factors, narrow, rows, inner, addend,
                hidden_size,
            )  # fmt: skip
    for row in range(rows):
        add_row(x, row * hidden_size, addend, row * hidden_size, hidden_size)


def decode_stack(
    x: Tensor, cos: Tensor, sin: Tensor, slots: Tensor, tables: Tensor, lengths: Tensor, keys: Tensor, values: Tensor,
    weights: StackWeights,
) -> None:  # fmt: skip
    """All decoder layers for D decode rows.

    x float32 [D, C], the residual stream, is updated in place; cos and sin float32 [D, E/2]; slots int64 [D]; tables
    int32 [D, blocks]; lengths int32 [D]; keys and values with the layer as first axis.
    """
    _stack(
        as_array(x).reshape(-1), as_array(cos).reshape(-1), as_array(sin).reshape(-1), as_array(slots),
        as_array(tables), as_array(lengths), as_array(keys), as_array(values), weights.data, weights.scales,
        weights.biases, weights.where, weights.attention_norms, weights.mlp_norms, weights.heads, weights.inner,
        np.float32(weights.eps), np.float32(values.shape[4] ** -0.5), numba.get_num_threads(),
    )  # fmt: skip
