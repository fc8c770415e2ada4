"""One tensor of a checkpoint: its shape and storage known at once, its bytes only when asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Storage:
    """How a kind of tensor lies in a file: rows are cut into blocks of ``elements`` in ``nbytes`` bytes.

    ``ggml_id`` is the number that GGUF files use for it, None where they cannot hold it.
    """

    kind: str
    ggml_id: int | None
    elements: int
    nbytes: int

    def size(self, shape: tuple[int, ...]) -> int:
        """Bytes of a tensor; the last axis must be whole blocks."""
        return prod(shape) // self.elements * self.nbytes


READABLE = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
PLAIN = {"I64": 8, "I8": 1, "U8": 1, "F8_E4M3": 1, "F8_E8M0": 1}
"""Bytes of a number of the kinds that only safetensors files hold: integers, and codes of small floats."""
STORAGES = {
    kind: Storage(kind, int(GGMLQuantizationType[kind]), *GGML_QUANT_SIZES[GGMLQuantizationType[kind]])
    for kind in READABLE
} | {kind: Storage(kind, None, 1, nbytes) for kind, nbytes in PLAIN.items()}
"""Every storage that can be read, by name; block layouts are those of ggml."""


class TensorSource(ABC):
    """A named tensor that is read when needed. ``shape`` is row-major, the last axis contiguous."""

    shape: tuple[int, ...]
    kind: str

    @property
    def nbytes(self) -> int:
        """Bytes that it occupies in the file."""
        return STORAGES[self.kind].size(self.shape)

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
    if kind in PLAIN:
        raise ValueError(f"{kind} holds codes or ids, which mean nothing as numbers alone")
    values: Any = quants.dequantize(raw, GGMLQuantizationType[kind])
    return np.asarray(values, dtype=np.float32)
