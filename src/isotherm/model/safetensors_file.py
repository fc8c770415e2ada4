"""Reads the header of a safetensors file; tensors stay mapped.

The ``safetensors`` package gives BF16 tensors only to frameworks that have the type, which NumPy has
not, so the header (a length and a JSON object) is read here. The checks are those of the format's
own description: offsets in order, no gap, no overlap, nothing behind the end.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from isotherm.base.errors import SetupError
from isotherm.model.tensors import PLAIN, STORAGES, Bytes, TensorSource

LENGTH_BYTES = 8
MAX_HEADER = 100_000_000
"""The format's own limit."""
KINDS = ("F32", "F16", "BF16", *PLAIN)


class SafetensorsTensor(TensorSource):
    """One tensor of a mapped file, from byte ``start``."""

    def __init__(self, data: Bytes, kind: str, shape: tuple[int, ...], start: int) -> None:
        self.kind = kind
        self.shape = shape
        self._data = data
        self._start = start

    def raw(self) -> Bytes:
        rows = self.shape[:-1]
        flat = self._data[self._start : self._start + self.nbytes]
        return flat.reshape(*rows, self.nbytes // prod(rows))


def read_safetensors(path: Path) -> dict[str, TensorSource]:
    """The tensors of one file by name. SetupError when it is missing, cut short or damaged."""
    data = _map(path)
    header, base = _header(path, data)
    spans: list[tuple[int, int]] = []
    tensors: dict[str, TensorSource] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        kind, shape, start, end = _entry(path, name, entry)
        spans.append((start, end))
        tensors[name] = SafetensorsTensor(data, kind, shape, base + start)
    position = 0
    for start, end in sorted(spans):
        if start != position:
            raise _damaged(path, "tensors overlap or leave a gap")
        position = end
    if base + position != len(data):
        raise _damaged(path, f"it has {len(data)} bytes where its header describes {base + position}")
    return tensors


def _damaged(path: Path, problem: str) -> SetupError:
    return SetupError(f"{path} is not a usable safetensors file: {problem}. Download it again.")


def _map(path: Path) -> Bytes:
    try:
        with path.open("rb") as file:
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype=np.uint8)
    except ValueError as error:
        raise _damaged(path, "it is empty") from error
    except OSError as error:
        raise SetupError(f"Cannot open {path}: {error.strerror or error}.") from error


def _header(path: Path, data: Bytes) -> tuple[Mapping[str, Any], int]:
    """The parsed header, and where the data begin."""
    length = int.from_bytes(data[:LENGTH_BYTES].tobytes(), "little")
    if len(data) < LENGTH_BYTES or length > min(len(data) - LENGTH_BYTES, MAX_HEADER):
        raise _damaged(path, "it ends inside its header")
    try:
        header = json.loads(data[LENGTH_BYTES : LENGTH_BYTES + length].tobytes())
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "its header is no JSON") from error
    if not isinstance(header, dict):
        raise _damaged(path, "its header is no JSON object")
    return header, LENGTH_BYTES + length


def _entry(path: Path, name: str, entry: Any) -> tuple[str, tuple[int, ...], int, int]:
    """Kind, shape and the span in the data section, checked against each other."""
    try:
        kind, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    except (TypeError, KeyError, ValueError) as error:
        raise _damaged(path, f"tensor {name!r} is not described") from error
    if kind not in KINDS:
        raise SetupError(f"{path}: tensor {name!r} is stored as {kind}; these can be read: {', '.join(KINDS)}.")
    numbers = (*shape, start, end)
    if any(isinstance(number, bool) or not isinstance(number, int) or number < 0 for number in numbers):
        raise _damaged(path, f"tensor {name!r} has an impossible shape or place")
    if not shape or not all(shape) or end - start != STORAGES[kind].size(shape):
        raise _damaged(path, f"tensor {name!r} of shape {list(shape)} does not fit its {end - start} bytes")
    return kind, shape, start, end
