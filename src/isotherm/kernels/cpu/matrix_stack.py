"""All layers of a forward in a single compiled call on the matrix unit: prompts, decode rows, or both.

Every row is computed by the same operations in the same order whatever rows are beside it, and however its prompt was
cut into chunks.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from torch import Tensor

from isotherm.kernels.cpu import amx
from isotherm.kernels.cpu.aligned import bytes_for
from isotherm.kernels.cpu.arranged import arrange_row
from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.compiled import kernel, parallel
from isotherm.kernels.cpu.flash import ROWS, RUN, attend_rows
from isotherm.kernels.cpu.many_rows import ADD, BLOCK_ROWS, PANEL, STORE, SUMS, SWIGLU, share_products
from isotherm.kernels.cpu.rows import norm_row, place_row
from isotherm.kernels.cpu.stack_weights import DOWN, GATE_UP, OUTPUT, QKV, StackWeights


def fits(hidden: int, inner: int, heads: int, groups: int, size: int) -> bool:
    """Whether a network of these sizes can run here: products sum 32 terms, and take 32 rows at a time."""
    fit = not any(width % amx.DEPTH for width in (hidden, inner, heads * size, size, groups * size))
    return fit and heads // groups <= ROWS


@kernel
def _enter(row: int, x: Any, norm: Any, eps: float, normed: Any, narrow: Any) -> None:
    """The norm of a row, brought to where products read it."""
    size = norm.size
    norm_row(x, row * size, norm, eps, normed, row * size)
    arrange_row(normed, row * size, size, narrow, row)


@kernel
def _share(
    thread: int, threads: int, task: int, layer: Any, weights: Any, scales: Any, biases: Any, narrow: Any, rows: int,
    inputs: int, out: Any, activated: Any, width: int, panel: Any, sums: Any,
) -> None:  # fmt: skip
    """``share_products`` with the thread's tiles configured around it."""
    amx.begin()
    share_products(
        thread, threads, task, layer, weights, scales, biases, narrow, rows, inputs, out, activated, width, panel, sums
    )
    amx.end()


@parallel
def _stack(
    x: Any, cos: Any, sin: Any, slots: Any, tasks: Any, prompt_blocks: Any, tables: Any, lengths: Any, keys: Any,
    values: Any, data: Any, scales: Any, biases: Any, where: Any, attention_norms: Any, mlp_norms: Any, heads: int,
    inner: int, eps: float, scale: float, threads: int,
) -> None:  # fmt: skip
    """x float32 [T * C], in and out; ``tasks`` int64 [blocks of prompt rows, 4]: first row, rows, position, place of
    the sequence's table in ``prompt_blocks``; ``tables`` and ``lengths`` describe the last rows, which decode.
    """
    rows, layers = slots.size, attention_norms.shape[0]
    hidden_size, groups, size = attention_norms.shape[1], values.shape[2], values.shape[4]
    width, attended_size = (heads + 2 * groups) * size, heads * size
    prompts = rows - lengths.size
    room = (rows + BLOCK_ROWS - 1) // BLOCK_ROWS * BLOCK_ROWS
    narrow = bytes_for(2 * room * max(hidden_size, attended_size)).view(np.uint16)
    activated = bytes_for(2 * room * inner).view(np.uint16)
    widest = max(inner, attended_size, hidden_size)
    normed = np.empty(rows * hidden_size, np.float32)
    qkv, query = np.empty(rows * width, np.float32), np.empty(rows * attended_size, np.float32)
    panels = bytes_for(threads * PANEL * widest).reshape(threads, PANEL * widest)
    sums_size = max(SUMS, ROWS * size)
    sums = bytes_for(4 * threads * sums_size).view(np.float32).reshape(threads, sums_size)
    scores = bytes_for(4 * threads * ROWS * RUN).view(np.float32).reshape(threads, ROWS * RUN)
    shares = bytes_for(2 * threads * ROWS * RUN).view(np.uint16).reshape(threads, ROWS * RUN)
    narrow_query = bytes_for(2 * threads * ROWS * size).view(np.uint16).reshape(threads, ROWS * size)
    state = np.empty((threads, 2, ROWS), np.float32)
    for layer in range(layers):
        linear = where[layer]
        for row in numba.prange(rows):
            _enter(row, x, attention_norms[layer], eps, normed, narrow)
        for thread in numba.prange(threads):
            _share(
                thread, threads, STORE, linear[QKV], data, scales, biases, narrow, rows, hidden_size, qkv,
                activated, width, panels[thread], sums[thread],
            )  # fmt: skip
        for row in numba.prange(rows):
            place_row(
                qkv, row * width, heads, cos, sin, row, slots[row], keys[layer], values[layer], query,
                row * attended_size,
            )  # fmt: skip
        for thread in numba.prange(threads):
            flat_keys, flat_values = keys[layer].reshape(-1), values[layer].reshape(-1)
            group = heads // groups
            amx.begin()
            for item in range(thread, tasks.shape[0] * heads, threads):
                task, head = tasks[item // heads], item % heads
                attend_rows(
                    query, task[0] * attended_size + head * size, attended_size, task[1], task[2], 1, flat_keys,
                    flat_values, prompt_blocks[task[3] :], head // group, groups, size, scale, query,
                    narrow_query[thread], scores[thread], shares[thread], sums[thread], state[thread],
                )  # fmt: skip
            for item in range(thread * groups, lengths.size * groups, threads * groups):
                row = item // groups
                for one in range(groups):
                    attend_rows(
                        query, (prompts + row) * attended_size + one * group * size, size, group, lengths[row] - 1, 0,
                        flat_keys, flat_values, tables[row], one, groups, size, scale, query, narrow_query[thread],
                        scores[thread], shares[thread], sums[thread], state[thread],
                    )  # fmt: skip
            amx.end()
        for row in numba.prange(rows):
            arrange_row(query, row * attended_size, attended_size, narrow, row)
        for thread in numba.prange(threads):
            _share(
                thread, threads, ADD, linear[OUTPUT], data, scales, biases, narrow, rows, attended_size, x,
                activated, hidden_size, panels[thread], sums[thread],
            )  # fmt: skip
        for row in numba.prange(rows):
            _enter(row, x, mlp_norms[layer], eps, normed, narrow)
        for thread in numba.prange(threads):
            _share(
                thread, threads, SWIGLU, linear[GATE_UP], data, scales, biases, narrow, rows, hidden_size, x,
                activated, 2 * inner, panels[thread], sums[thread],
            )  # fmt: skip
        for thread in numba.prange(threads):
            _share(
                thread, threads, ADD, linear[DOWN], data, scales, biases, activated, rows, inner, x,
                activated, hidden_size, panels[thread], sums[thread],
            )  # fmt: skip


def matrix_stack(
    x: Tensor, cos: Tensor, sin: Tensor, slots: Tensor, tasks: Tensor, prompt_blocks: Tensor, tables: Tensor,
    lengths: Tensor, keys: Tensor, values: Tensor, weights: StackWeights,
) -> None:  # fmt: skip
    """All decoder layers for T rows, prompts' first, then D decode rows.

    x float32 [T, C], the residual stream, is updated in place; cos and sin float32 [T, E/2]; slots int64 [T]; tasks
    int64 [P, 4]: up to 32 neighbouring rows of a prompt each, as first row, number of rows, position of the first
    row, place in ``prompt_blocks`` (int32) where the sequence's blocks begin; tables int32 [D, blocks]; lengths int32
    [D]; keys and values bfloat16 with the layer as first axis.
    """
    _stack(
        as_array(x).reshape(-1), as_array(cos).reshape(-1), as_array(sin).reshape(-1), as_array(slots),
        as_array(tasks), as_array(prompt_blocks), as_array(tables), as_array(lengths), as_array(keys),
        as_array(values), weights.data, weights.scales, weights.biases, weights.where, weights.attention_norms,
        weights.mlp_norms, weights.heads, weights.inner, np.float32(weights.eps),
        np.float32(values.shape[4] ** -0.5), numba.get_num_threads(),
    )  # fmt: skip
