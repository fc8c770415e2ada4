"""What the network asks of the cache: stores of recent rows, of compressed rows and of half-filled windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from isotherm.kernels.layouts import Rows

MAIN, INDEX = "main", "index"
"""The two compressors that a layer can have: of attention rows, and of the indexer's keys."""


@dataclass(frozen=True, slots=True)
class Span:
    """Rows ``first`` to ``last`` (exclusive) of a forward are one sequence's tokens at positions ``start`` and up.

    ``slot`` is the sequence's place for what has a fixed size, ``blocks`` int64 its blocks as far as the span reaches.
    """

    first: int
    last: int
    start: int
    slot: int
    blocks: Tensor

    @property
    def length(self) -> int:
        return self.last - self.first

    @property
    def end(self) -> int:
        """The position after the last one."""
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class DecodeRows:
    """The last D rows of a forward are one token each of D sequences.

    slots and positions int64 [D]; tables int64 [D, B], blocks as far as the longest sequence reaches.
    """

    slots: Tensor
    positions: Tensor
    tables: Tensor


class Memory(Protocol):
    """Rows go in as float32 and come back as the cache keeps them, in float32."""

    def window(self, layer: int) -> Rows:
        """The layer's recent rows: a slot is a page, position p lies in row p modulo the window."""
        ...

    def compressed(self, layer: int, kind: str) -> Rows:
        """The layer's compressed rows: a block is a page."""
        ...

    def states(self, layer: int, kind: str) -> Tensor:
        """Half-filled windows of the layer's compressor: float32 [slots, o r, 2 o d], to be written in place."""
        ...
