"""What this machine can do at most, measured: bytes a second from memory, operations a second of its units."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isotherm.kernels.cpu import roof
from isotherm.kernels.cpu.aligned import aligned
from isotherm.kernels.cpu.amx import has_amx

_BYTES = 64 << 20
"""More than any second cache; what a third one holds of it belongs to the machine's other users too."""
_SECONDS, _ROUNDS = 0.4, 4000
"""Many short tries: on a machine with other work, some are left alone."""


@dataclass(frozen=True, slots=True)
class Work:
    """The least that an operation must read, and compute; ``matrix``: products that the matrix unit can make."""

    bytes: int
    flops: int
    matrix: bool = False


@dataclass(frozen=True, slots=True)
class Roof:
    """Bytes a second, and operations a second on vectors and on the matrix unit (0 without one)."""

    bandwidth: float
    vector: float
    matrix: float

    def seconds(self, work: Work) -> float:
        """The time that no version of this work can beat: reading and computing overlap at best (Williams 2009)."""
        peak = self.matrix if work.matrix and self.matrix else self.vector
        return max(work.bytes / self.bandwidth, work.flops / peak)


def measure_roof(threads: int) -> Roof:
    """What so many threads can do; the best of many tries."""
    random = np.random.default_rng(0)
    data = aligned(_BYTES // 4, np.float32).reshape(threads, -1)[:, : _BYTES // 4 // threads // 64 * 64]
    data = np.ascontiguousarray(data)
    data[:] = 1
    out = np.zeros((threads, 256), np.float32)
    bandwidth = data.nbytes / _best(lambda: roof.read(data, threads, out))
    lanes = random.normal(0, 0.1, (threads, 256)).astype(np.float32)
    vector = _best(lambda: roof.multiply_lanes(lanes, threads, _ROUNDS, out))
    matrix = 0.0
    if has_amx():
        numbers = random.normal(0, 1, (threads, roof.TILES)).astype(np.float32).view(np.uint32) >> 16
        tiles = aligned(threads * roof.TILES, np.uint16).reshape(threads, -1)
        tiles[:] = numbers
        best = _best(lambda: roof.multiply_tiles(tiles, threads, _ROUNDS, out))
        matrix = 16 * roof.PRODUCT * threads * _ROUNDS / best
    return Roof(bandwidth, 2 * 16 * roof.FMAS * threads * _ROUNDS / vector, matrix)


def _best(run: Callable[[], None]) -> float:
    run()
    times: list[float] = []
    while sum(times) < _SECONDS:
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)
