"""Loops that do one thing as fast as this CPU can: read memory, multiply tiles, multiply lanes."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from isotherm.kernels.cpu import amx
from isotherm.kernels.cpu.compiled import parallel
from isotherm.kernels.cpu.vector import add, ask, fma, larger, load, splat, store

TILES = 16 * 1024
"""bfloat16 numbers of a thread's tiles, 32 KB: they stay in the first cache."""
PRODUCT = 2 * 16 * 16 * 32
"""Floating-point operations of a product of two tiles."""
FMAS = 8
_AHEAD = 1024


@parallel
def read(data: Any, threads: int, out: Any) -> None:
    """Every number of float32 data [threads, n] once; n a multiple of 64, out [threads, 16]."""
    for thread in numba.prange(threads):
        part, flat = data[thread], out[thread]
        a, b = splat(np.float32(0)), splat(np.float32(0))
        c, d = a, b
        for i in range(0, part.size, 64):
            ask(part, min(i + _AHEAD, part.size - 64), 64)
            a, b = larger(load(part, i), a), larger(load(part, i + 16), b)
            c, d = larger(load(part, i + 32), c), larger(load(part, i + 48), d)
        store(flat, 0, add(add(a, b), add(c, d)))


@parallel
def multiply_tiles(data: Any, threads: int, rounds: int, out: Any) -> None:
    """16 products of bfloat16 tiles a round, for float32 sums out [threads, 256], of data [threads, TILES].

    Four sums from four tiles each time, as kernels do it. The numbers should be like real ones: with zeros the unit
    draws less power and runs a quarter faster than with anything a model holds.
    """
    for thread in numba.prange(threads):
        part = data[thread]
        amx.begin()
        amx.zero(0)
        amx.zero(1)
        amx.zero(2)
        amx.zero(3)
        for i in range(rounds):
            for step in range(4):
                at = ((4 * i + step) & 7) * 2048
                amx.load(4, part, at, 64)
                amx.load(5, part, at + 512, 64)
                amx.load(6, part, at + 1024, 64)
                amx.load(7, part, at + 1536, 64)
                amx.multiply(0, 4, 6)
                amx.multiply(2, 5, 6)
                amx.multiply(1, 4, 7)
                amx.multiply(3, 5, 7)
        amx.store(0, out[thread], 0, 64)
        amx.end()


@parallel
def multiply_lanes(data: Any, threads: int, rounds: int, out: Any) -> None:
    """``FMAS`` products and sums of sixteen lanes a round, data and out float32 [threads, 256]."""
    for thread in numba.prange(threads):
        part, to = data[thread], out[thread]
        x, y = load(part, 128), load(part, 144)
        a, b, c, d = load(part, 0), load(part, 16), load(part, 32), load(part, 48)
        e, f, g, h = load(part, 64), load(part, 80), load(part, 96), load(part, 112)
        for _ in range(rounds):
            a, b, c, d = fma(a, x, y), fma(b, x, y), fma(c, x, y), fma(d, x, y)
            e, f, g, h = fma(e, x, y), fma(f, x, y), fma(g, x, y), fma(h, x, y)
        store(to, 0, add(add(add(a, b), add(c, d)), add(add(e, f), add(g, h))))
