"""Twin of ``reference.compress.compress_rows``: a token of every sequence goes into its compressor, in one call."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from torch import Tensor

from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.compiled import kernel, parallel
from isotherm.kernels.cpu.latent_rows import keep_row
from isotherm.kernels.cpu.turn import norm_into, rotate_pairs
from isotherm.kernels.cpu.vector import LANES, add, exponential, fma, load, maximum, mul, splat, store
from isotherm.kernels.layouts import Rows

MANY_ROWS = 16
"""From here on the machine's threads share the rows."""


@kernel
def _pool(state: Any, base: int, slots: int, previous: int, width: int, half: int, overlap: int, out: Any) -> None:
    """Gated sums of a full window, channel by channel, in two passes: shares relative to the largest gate.

    state flat, the window's rows from element ``base`` on, 2 ``width`` apart: values, then gates. Of ``slots`` rows the
    first ``previous`` give the first half of their channels, the others the last ``half``.
    """
    later = width - half
    for c in range(0, half, LANES):
        top = splat(np.float32(-3e38))
        for slot in range(overlap, slots):
            at = base + slot * 2 * width + width + c + (0 if slot < previous else later)
            top = maximum(top, load(state, at))
        mass, sums = splat(np.float32(0)), splat(np.float32(0))
        low = mul(splat(np.float32(-1)), top)
        for slot in range(overlap, slots):
            at = base + slot * 2 * width + c + (0 if slot < previous else later)
            share = exponential(add(load(state, at + width), low))
            mass = add(mass, share)
            sums = fma(share, load(state, at), sums)
        store(out, c, sums)
        store(out, half + c, mass)
    for c in range(half):
        out[c] /= out[half + c]


@kernel
def _row(
    fresh: Any, row: int, ape: Any, norm: Any, eps: float, cos: Any, sin: Any, pairs: int, state: Any, base: int,
    state_rows: int, position: int, table: Any, data: Any, per_page: int, rotated: int, pooled: Any,
) -> None:  # fmt: skip
    """One token; the state's rows lie from element ``base`` on."""
    ratio, width = ape.shape
    phase, overlaps = position % ratio, state_rows > ratio
    at = base + (state_rows - ratio + phase) * 2 * width
    for c in range(0, width, LANES):
        store(state, at + c, load(fresh, row * 2 * width + c))
        gate = add(load(fresh, row * 2 * width + width + c), load(ape, phase * width + c))
        store(state, at + width + c, gate)
    if phase < ratio - 1:
        return
    previous = ratio if overlaps else 0
    size = width // 2 if overlaps else width
    missing = previous if position < ratio else 0
    _pool(state, base, state_rows, previous, width, size, missing, pooled)
    norm_into(pooled, 0, size, norm, eps, pooled, 0)
    rotate_pairs(pooled, size - 2 * pairs, cos, sin, row, pairs, 1.0)
    index = position // ratio
    keep_row(data, table[index // per_page], index % per_page, size, rotated, pooled, 0)
    for c in range(0, previous * 2 * width, LANES):
        store(state, base + c, load(state, base + previous * 2 * width + c))


@parallel
def _rows(
    fresh: Any, ape: Any, norm: Any, eps: float, cos: Any, sin: Any, pairs: int, state: Any, slot_size: int,
    state_rows: int, slots: Any, positions: Any, tables: Any, data: Any, per_page: int, rotated: int, threads: int,
) -> None:  # fmt: skip
    threads = threads if slots.size >= MANY_ROWS else 1
    if threads == 1:
        pooled = np.empty(2 * norm.size, np.float32)
        for row in range(slots.size):
            _row(
                fresh, row, ape, norm, eps, cos, sin, pairs, state, slots[row] * slot_size, state_rows,
                positions[row], tables[row], data, per_page, rotated, pooled,
            )  # fmt: skip
    else:
        for thread in numba.prange(threads):
            pooled = np.empty(2 * norm.size, np.float32)
            for row in range(slots.size * thread // threads, slots.size * (thread + 1) // threads):
                _row(
                    fresh, row, ape, norm, eps, cos, sin, pairs, state, slots[row] * slot_size, state_rows,
                    positions[row], tables[row], data, per_page, rotated, pooled,
                )  # fmt: skip


def compress_rows(
    fresh: Tensor, ape: Tensor, norm: Tensor, eps: float, cos: Tensor, sin: Tensor, states: Tensor, slots: Tensor,
    positions: Tensor, tables: Tensor, rows: Rows,
) -> None:  # fmt: skip
    """See ``reference.compress.compress_rows``; d a multiple of 16."""
    _rows(
        as_array(fresh).reshape(-1), as_array(ape), as_array(norm), np.float32(eps), as_array(cos).reshape(-1),
        as_array(sin).reshape(-1), cos.shape[1], as_array(states).reshape(-1), states[0].numel(), states.shape[1],
        as_array(slots), as_array(positions), as_array(tables), as_array(rows.data), rows.per_page,
        rows.layout.rotated, numba.get_num_threads(),
    )  # fmt: skip
