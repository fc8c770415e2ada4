"""One tensor of a checkpoint: its shape and storage known at once, its bytes only when asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Storage:
    """How a kind of tensor lies in a file: rows are cut into blocks of ``elements`` in ``nbytes`` bytes.

    ``ggml_id`` is the number that GGUF files use for it.
    """

    kind: str
    ggml_id: int
    elements: int
    nbytes: int


STORAGES = {
    storage.kind: storage
    for storage in (
        Storage("F32", 0, 1, 4),
        Storage("F16", 1, 1, 2),
        Storage("Q4_0", 2, 32, 18),
        Storage("Q4_1", 3, 32, 20),
        Storage("Q5_0", 6, 32, 22),
        Storage("Q5_1", 7, 32, 24),
        Storage("Q8_0", 8, 32, 34),
        Storage("Q2_K", 10, 256, 84),
        Storage("Q3_K", 11, 256, 110),
        Storage("Q4_K", 12, 256, 144),
        Storage("Q5_K", 13, 256, 176),
        Storage("Q6_K", 14, 256, 210),
        Storage("BF16", 30, 1, 2),
    )
}
"""Every storage that can be read, by name; block layouts are those of ggml."""


class TensorSource(ABC):
    """A named tensor that is read when needed. ``shape`` is row-major, the last axis contiguous."""

    shape: tuple[int, ...]
    kind: str

    @property
    def nbytes(self) -> int:
        """Bytes that it occupies in the file."""
        storage = STORAGES[self.kind]
        return prod(self.shape) // storage.elements * storage.nbytes

    @abstractmethod
    def raw(self) -> Bytes:
        """The stored blocks as uint8 [..., bytes of a row], mapped from the file (a copy where rows move)."""

    def dequantize(self) -> Floats:
        """The values as float32 with ``shape``."""
        return dequantize(self.raw(), self.kind).reshape(self.shape)


def dequantize(raw: Bytes, kind: str) -> Floats:
    """Float32 values of stored rows: uint8 [..., row bytes] gives float32 [..., row elements]."""
    raw = np.ascontiguousarray(raw)
    if kind == "F32":
        return raw.view(np.float32)
    if kind == "F16":
        return raw.view(np.float16).astype(np.float32)
    if kind == "BF16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    # Imported late: a checkpoint can be listed and inspected without it, and it costs a tenth of a second.
    from gguf import GGMLQuantizationType, quants  # noqa: PLC0415

    values: Any = quants.dequantize(raw, GGMLQuantizationType[kind])
    return np.asarray(values, dtype=np.float32)
