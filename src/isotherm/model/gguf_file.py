"""Reads the header of a GGUF file: metadata and the place of every tensor; tensors stay mapped.

The ``gguf`` package keeps every vocabulary entry as numpy parts, which takes seconds for 49,152
tokens. A server that shall answer within six seconds cannot afford that, so this reader walks the
header once with ``struct``. Every count is compared with the bytes that are left before anything
is allocated: a damaged header costs no memory. Format: ggml's ``docs/gguf.md``, versions 2 and 3.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from isotherm.base.errors import SetupError
from isotherm.model.tensors import STORAGES, Bytes

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
MAX_DIMENSIONS = 4
MAX_ARRAY_DEPTH = 2
SMALLEST_METADATA = 8 + 4 + 1
"""Bytes of the shortest metadata entry: an empty key's length, a type and a one-byte value."""
_T = TypeVar("_T")
SMALLEST_TENSOR = 8 + 4 + 4 + 8
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""GGUF value types that are one number, as ``struct`` letters."""
NUMPY_TYPES = {0: "u1", 1: "i1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", 7: "?", 10: "u8", 11: "i8", 12: "f8"}
STRING = 8
ARRAY = 9
KIND_BY_ID = {storage.ggml_id: storage.kind for storage in STORAGES.values() if storage.ggml_id is not None}


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where a tensor lies. ``shape`` is row-major (GGUF writes it the other way round), ``start`` absolute."""

    name: str
    shape: tuple[int, ...]
    kind: str
    start: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class GgufFile:
    """An opened file. ``data`` maps it whole, read-only. Metadata arrays are lists of str or numpy arrays."""

    path: Path
    version: int
    metadata: dict[str, Any]
    tensors: dict[str, TensorEntry]
    data: Bytes = field(repr=False)

    def text(self, key: str) -> str | None:
        """A metadata entry that is text, None when absent; SetupError when it is something else."""
        return self._typed(key, str, "text")

    def flag(self, key: str, default: bool = False) -> bool:
        """A metadata entry that is true or false."""
        found = self._typed(key, bool, "true or false")
        return default if found is None else found

    def texts(self, key: str) -> list[str]:
        """A metadata entry that is a list of texts, empty when absent."""
        found = self._typed(key, list, "a list of texts") or []
        if found and not isinstance(found[0], str):
            raise SetupError(f"{self.path}: {key} must be a list of texts.")
        return found

    def _typed(self, key: str, kind: type[_T], words: str) -> _T | None:
        value = self.metadata.get(key)
        if value is not None and not isinstance(value, kind):
            raise SetupError(f"{self.path}: {key} must be {words}, not {value!r}.")
        return value

    def bytes_of(self, entry: TensorEntry) -> Bytes:
        """The stored blocks of a tensor, uint8 [..., bytes of a row], not copied."""
        flat = self.data[entry.start : entry.start + entry.nbytes]
        rows = entry.shape[:-1]
        return flat.reshape(*rows, entry.nbytes // prod(rows))


class _Cursor:
    """Walks the header. Running past the end, or a count that cannot fit, is a SetupError."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.size = len(data)
        self.position = 0

    def fail(self, problem: str) -> SetupError:
        return SetupError(
            f"{self.path} is not a usable GGUF file: {problem} (at byte {self.position} of {self.size}). "
            "Download or convert it again."
        )

    def need(self, count: int, what: str) -> None:
        if count > self.size - self.position:
            raise self.fail(f"it ends inside {what}; the file is truncated or its header is damaged")

    def number(self, letter: str, what: str) -> Any:
        size = struct.calcsize("<" + letter)
        self.need(size, what)
        (value,) = struct.unpack_from("<" + letter, self.data, self.position)
        self.position += size
        return value

    def string(self, what: str) -> str:
        length = self.number("Q", what)
        self.need(length, what)
        raw = self.data[self.position : self.position + length]
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.fail(f"{what} is not UTF-8") from error
        self.position += length
        return text

    def value(self, kind: int, what: str, depth: int = 0) -> Any:
        if kind in SCALARS:
            return self.number(SCALARS[kind], what)
        if kind == STRING:
            return self.string(what)
        if kind == ARRAY and depth < MAX_ARRAY_DEPTH:
            return self.array(what, depth)
        raise self.fail(f"{what} has the unknown value type {kind}")

    def array(self, what: str, depth: int) -> Any:
        kind = self.number("I", what)
        count = self.number("Q", what)
        if kind in SCALARS:
            item = np.dtype("<" + NUMPY_TYPES[kind])
            self.need(count * item.itemsize, what)
            values = np.frombuffer(self.data, item, count, self.position)
            self.position += count * item.itemsize
            return values
        if kind == STRING:
            self.need(count * 8, what)
            return self.strings(count, what)
        self.need(count * 12, what)
        return [self.value(kind, what, depth + 1) for _ in range(count)]

    def strings(self, count: int, what: str) -> list[str]:
        """Like ``string``, ``count`` times, in one tight loop: vocabularies are most of a header."""
        data, size, position = self.data, self.size, self.position
        read_length = struct.Struct("<Q").unpack_from
        found = []
        try:
            for _ in range(count):
                (length,) = read_length(data, position)
                position += 8
                if length > size - position:
                    raise self.fail(f"it ends inside {what}; the file is truncated or its header is damaged")
                found.append(data[position : position + length].decode("utf-8"))
                position += length
        except struct.error as error:
            raise self.fail(f"it ends inside {what}; the file is truncated") from error
        except UnicodeDecodeError as error:
            raise self.fail(f"{what} holds a string that is not UTF-8") from error
        self.position = position
        return found


def read_gguf(path: Path) -> GgufFile:
    """Open a GGUF file: header parsed and checked, tensors mapped.

    Raises SetupError when the file is missing, is not GGUF, is cut short or contradicts itself.
    """
    data = _map(path)
    cursor = _Cursor(path, data)
    version = _read_start(cursor)
    tensor_count = cursor.number("Q", "the tensor count")
    metadata_count = cursor.number("Q", "the metadata count")
    if tensor_count * SMALLEST_TENSOR + metadata_count * SMALLEST_METADATA > cursor.size:
        raise cursor.fail(
            f"it claims {tensor_count} tensors and {metadata_count} metadata entries, more than fit in it"
        )
    metadata = _unique(cursor, metadata_count, _read_metadata)
    layouts = _unique(cursor, tensor_count, _read_tensor)
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise cursor.fail(f"general.alignment is {alignment!r}, not a power of two")
    base = -(-cursor.position // alignment) * alignment
    tensors = {name: _place(cursor, name, layout, base, alignment) for name, layout in layouts.items()}
    return GgufFile(path, version, metadata, tensors, np.frombuffer(data, dtype=np.uint8))


def _map(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError as error:
        raise SetupError(f"{path} is empty. Download it again.") from error
    except OSError as error:
        raise SetupError(f"Cannot open {path}: {error.strerror or error}.") from error


def _read_start(cursor: _Cursor) -> int:
    cursor.need(8, "the magic number and version")
    found = cursor.data[:4]
    if found != MAGIC:
        raise cursor.fail(f"it starts with {found!r} instead of {MAGIC!r}")
    cursor.position = 4
    version = int(cursor.number("I", "the version"))
    if version in VERSIONS:
        return version
    if version & 0xFFFF == 0:
        raise cursor.fail("it is big-endian; only little-endian files can be read")
    raise cursor.fail(f"it has version {version}; versions {' and '.join(map(str, VERSIONS))} can be read")


def _unique(cursor: _Cursor, count: int, read: Callable[[_Cursor], tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(count):
        name, value = read(cursor)
        if name in found:
            raise cursor.fail(f"{name!r} occurs twice")
        found[name] = value
    return found


def _read_metadata(cursor: _Cursor) -> tuple[str, Any]:
    key = cursor.string("a metadata key")
    kind = cursor.number("I", f"metadata {key!r}")
    return key, cursor.value(kind, f"metadata {key!r}")


def _read_tensor(cursor: _Cursor) -> tuple[str, tuple[tuple[int, ...], str, int]]:
    """Name, then (row-major shape, kind, offset in the data section)."""
    name = cursor.string("a tensor name")
    what = f"tensor {name!r}"
    dimensions = cursor.number("I", what)
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise cursor.fail(f"{what} has {dimensions} dimensions")
    shape = tuple(cursor.number("Q", what) for _ in range(dimensions))[::-1]
    ggml_id = cursor.number("I", what)
    offset = cursor.number("Q", what)
    if ggml_id not in KIND_BY_ID:
        readable = ", ".join(STORAGES)
        raise cursor.fail(f"{what} is stored as ggml type {ggml_id}; these can be read: {readable}")
    return name, (shape, KIND_BY_ID[ggml_id], offset)


def _place(
    cursor: _Cursor, name: str, layout: tuple[tuple[int, ...], str, int], base: int, alignment: int
) -> TensorEntry:
    shape, kind, offset = layout
    storage = STORAGES[kind]
    if not all(shape) or shape[-1] % storage.elements:
        raise cursor.fail(f"tensor {name!r} has shape {list(shape)}, impossible for {kind}")
    if offset % alignment:
        raise cursor.fail(f"tensor {name!r} starts at offset {offset}, not a multiple of {alignment}")
    nbytes = storage.size(shape)
    if base + offset + nbytes > cursor.size:
        raise cursor.fail(f"tensor {name!r} reaches to byte {base + offset + nbytes}; the file is truncated")
    return TensorEntry(name, shape, kind, base + offset, nbytes)
