"""All layers of one decode step in a single compiled call, over quantised weights.

Between the linear layers a step does some ten small things a layer; called one by one from Python they cost as much as
the weights' own time for a single sequence. Here the threads meet at the end of each phase and nothing else intervenes.
Every row is computed by the same operations in the same order whatever rows are beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotherm.base.block import BLOCK_SIZE
from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.attention import attend_share
from isotherm.kernels.cpu.compiled import kernel, parallel
from isotherm.kernels.cpu.quant_matmul import QuantWeight, quantise_row, share_tiles
from isotherm.kernels.cpu.rows import add_row, norm_row, place_row, silu_mul_row
from isotherm.kernels.cpu.vector import LANES

FEW_ROWS = 3
"""Up to this many rows, row-wise phases run on one thread: waking the others would take longer."""


@dataclass(frozen=True, slots=True)
class StackWeights:
    """Every layer's weights, one array a kind with the layer as first axis (see ``quant_matmul.QuantWeight``).

    ``linears`` are, in order, qkv, attention output, gate-and-up, down: quants [layers, bytes] and scales
    [layers, pairs]. Norms are float32 [layers, C].
    """

    quants: tuple[NDArray[np.uint8], ...]
    scales: tuple[NDArray[np.uint16], ...]
    attention_norms: NDArray[np.float32]
    mlp_norms: NDArray[np.float32]
    bits: int
    heads: int
    eps: float

    @staticmethod
    def of(
        layers: list[tuple[QuantWeight, ...]], norms: tuple[NDArray[Any], NDArray[Any]], heads: int, eps: float
    ) -> StackWeights:
        """Join the four linear layers of every decoder layer; all must have the same number of bits."""
        kinds = list(zip(*layers, strict=True))
        return StackWeights(
            tuple(np.stack([weight.quants for weight in kind]) for kind in kinds),
            tuple(np.stack([weight.scales for weight in kind]) for kind in kinds),
            *norms,
            layers[0][0].bits,
            heads,
            eps,
        )


@kernel
def _enter(
    row: int, x: Any, addend: Any, fresh: bool, norm: Any, eps: float, hidden: Any, quants: Any, factors: Any
) -> None:
    """Finish the previous sublayer of a row and prepare the next: add, norm, quantise."""
    size = norm.size
    if not fresh:
        add_row(x, row * size, addend, row * size, size)
    norm_row(x, row * size, norm, eps, hidden, row * size)
    quantise_row(hidden, row * size, size, quants, factors, row)


@kernel
def _activate(row: int, gate_up: Any, size: int, hidden: Any, quants: Any, factors: Any) -> None:
    """SwiGLU of a row, quantised."""
    silu_mul_row(gate_up, row * 2 * size, size, hidden, row * size)
    quantise_row(hidden, row * size, size, quants, factors, row)


@parallel
def _stack(
    x: Any, addend: Any, cos: Any, sin: Any, slots: Any, tables: Any, lengths: Any, keys: Any, values: Any,
    qkv_q: Any, qkv_s: Any, out_q: Any, out_s: Any, up_q: Any, up_s: Any, down_q: Any, down_s: Any,
    attention_norms: Any, mlp_norms: Any, bits: int, heads: int, eps: float, scale: float, threads: int,
) -> None:  # fmt: skip
    """x float32 [D * C] in and out; ``addend`` [D * C] holds the last sublayer's output, still to be added."""
    rows, layers = lengths.size, attention_norms.shape[0]
    hidden_size, groups, size = attention_norms.shape[1], values.shape[2], values.shape[4]
    width = (heads + 2 * groups) * size
    attended_size = heads * size
    inner = down_s.shape[1] * LANES // hidden_size
    wide = max(inner, attended_size, hidden_size)
    hidden = np.empty(rows * wide, np.float32)
    quants, factors = np.empty(rows * wide, np.int8), np.empty(rows * wide // 16, np.float32)
    qkv, query = np.empty(rows * width, np.float32), np.empty(rows * attended_size, np.float32)
    attended, gate_up = np.empty(rows * attended_size, np.float32), np.empty(rows * 2 * inner, np.float32)
    scratch = np.empty((threads, BLOCK_SIZE + size), np.float32)
    packed = np.empty((threads, BLOCK_SIZE + size), values.dtype)
    row_threads = threads if rows > FEW_ROWS else 1
    for layer in range(layers):
        if row_threads == 1:
            for row in range(rows):
                _enter(row, x, addend, layer == 0, attention_norms[layer], eps, hidden, quants, factors)
        else:
            for row in numba.prange(rows):
                _enter(row, x, addend, layer == 0, attention_norms[layer], eps, hidden, quants, factors)
        for thread in numba.prange(threads):
            share_tiles(
                thread, threads, bits, qkv_q[layer], 0, qkv_s[layer], 0, quants, factors, rows, hidden_size, qkv, width
            )
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
                quantise_row(attended, row * attended_size, attended_size, quants, factors, row)
        else:
            for row in numba.prange(rows):
                quantise_row(attended, row * attended_size, attended_size, quants, factors, row)
        for thread in numba.prange(threads):
            share_tiles(
                thread, threads, bits, out_q[layer], 0, out_s[layer], 0, quants, factors, rows, attended_size, addend,
                hidden_size,
            )  # fmt: skip
        if row_threads == 1:
            for row in range(rows):
                _enter(row, x, addend, False, mlp_norms[layer], eps, hidden, quants, factors)
        else:
            for row in numba.prange(rows):
                _enter(row, x, addend, False, mlp_norms[layer], eps, hidden, quants, factors)
        for thread in numba.prange(threads):
            share_tiles(
                thread, threads, bits, up_q[layer], 0, up_s[layer], 0, quants, factors, rows, hidden_size, gate_up,
                2 * inner,
            )  # fmt: skip
        if row_threads == 1:
            for row in range(rows):
                _activate(row, gate_up, inner, hidden, quants, factors)
        else:
            for row in numba.prange(rows):
                _activate(row, gate_up, inner, hidden, quants, factors)
        for thread in numba.prange(threads):
            share_tiles(
                thread, threads, bits, down_q[layer], 0, down_s[layer], 0, quants, factors, rows, inner, addend,
                hidden_size,
            )  # fmt: skip


def decode_stack(
    x: Tensor, cos: Tensor, sin: Tensor, slots: Tensor, tables: Tensor, lengths: Tensor, keys: Tensor, values: Tensor,
    weights: StackWeights,
) -> Tensor:  # fmt: skip
    """All decoder layers for D decode rows.

    x float32 [D, C] (updated in place); cos and sin float32 [D, E/2]; slots int64 [D]; tables int32 [D, blocks];
    lengths int32 [D]; keys and values with the layer as first axis. Returns the last sublayer's output
    [D, C], not yet added to x.
    """
    addend = torch.empty_like(x)
    linears = [array for pair in zip(weights.quants, weights.scales, strict=True) for array in pair]
    _stack(
        as_array(x).reshape(-1), as_array(addend).reshape(-1), as_array(cos).reshape(-1),
        as_array(sin).reshape(-1), as_array(slots),
        as_array(tables), as_array(lengths), as_array(keys), as_array(values), *linears, weights.attention_norms,
        weights.mlp_norms, weights.bits, weights.heads, np.float32(weights.eps), np.float32(values.shape[4] ** -0.5),
        numba.get_num_threads(),
    )  # fmt: skip
    return addend
