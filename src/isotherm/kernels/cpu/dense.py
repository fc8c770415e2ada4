"""Products of few rows with weights as they are stored, row after row, in float32 or bfloat16."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.compiled import kernel, parallel
from isotherm.kernels.cpu.vector import LANES, add, ask, fma, load, splat, total

FEW_ROWS = 8
"""Above it, a library's product beats reading the weights once for every row."""
BLOCK = 4
"""Outputs that are summed side by side, so that one sum does not wait for itself."""
AHEAD = 1 << 13
"""By how many elements weights are asked for before their use: the CPU sees four short runs, and foresees little."""
THREAD = 1 << 16
"""Weights that keep a thread busy for as long as it takes to wake it."""


@kernel
def _one(weights: Any, at: int, x: Any, x_at: int, inputs: int) -> Any:
    even, odd = splat(np.float32(0)), splat(np.float32(0))
    for i in range(0, inputs - LANES, 2 * LANES):
        even = fma(load(weights, at + i), load(x, x_at + i), even)
        odd = fma(load(weights, at + i + LANES), load(x, x_at + i + LANES), odd)
    if inputs % (2 * LANES):
        even = fma(load(weights, at + inputs - LANES), load(x, x_at + inputs - LANES), even)
    return total(add(even, odd))


@kernel
def products(weights: Any, at: int, x: Any, x_at: int, inputs: int, outputs: int, out: Any, to: int) -> None:
    """out[to + o] = sum over i of weights[at + o inputs + i] x[x_at + i]; inputs a multiple of 16."""
    whole = outputs // BLOCK * BLOCK
    for o in range(0, whole, BLOCK):
        first = at + o * inputs
        second, third, fourth = first + inputs, first + 2 * inputs, first + 3 * inputs
        a, b, c, d = splat(np.float32(0)), splat(np.float32(0)), splat(np.float32(0)), splat(np.float32(0))
        for i in range(0, inputs, LANES):
            ask(weights, first + BLOCK * i + AHEAD, BLOCK * LANES)
            part = load(x, x_at + i)
            a = fma(load(weights, first + i), part, a)
            b = fma(load(weights, second + i), part, b)
            c = fma(load(weights, third + i), part, c)
            d = fma(load(weights, fourth + i), part, d)
        out[to + o], out[to + o + 1] = total(a), total(b)
        out[to + o + 2], out[to + o + 3] = total(c), total(d)
    for o in range(whole, outputs):
        out[to + o] = _one(weights, at + o * inputs, x, x_at, inputs)


@kernel
def share_of(thread: int, threads: int, outputs: int) -> tuple[int, int]:
    """A thread's run of outputs, in whole blocks."""
    blocks = (outputs + BLOCK - 1) // BLOCK
    return blocks * thread // threads * BLOCK, min(blocks * (thread + 1) // threads * BLOCK, outputs)


@kernel
def threads_for(work: int, threads: int) -> int:
    """How many threads are worth waking for so many multiplications."""
    return max(1, min(threads, work // THREAD))


@parallel
def _linear(x: Any, weights: Any, rows: int, inputs: int, outputs: int, out: Any, threads: int) -> None:
    threads = threads_for(rows * inputs * outputs, threads)
    if threads == 1:
        for row in range(rows):
            products(weights, 0, x, row * inputs, inputs, outputs, out, row * outputs)
    else:
        for thread in numba.prange(threads):
            first, last = share_of(thread, threads, outputs)
            for row in range(rows):
                products(weights, first * inputs, x, row * inputs, inputs, last - first, out, row * outputs + first)


def linear(x: Tensor, weights: NDArray[Any]) -> Tensor:
    """x [rows, K], float32 or bfloat16 and contiguous, times transposed weights [N, K]: float32 [rows, N].

    ``weights`` are a tensor's as ``as_array`` gives them: views are made once, a step makes hundreds of products.
    """
    out = torch.empty(x.shape[0], weights.shape[0])
    _linear(
        as_array(x).reshape(-1), weights.reshape(-1), x.shape[0], x.shape[1], weights.shape[0],
        as_array(out).reshape(-1), numba.get_num_threads(),
    )  # fmt: skip
    return out
