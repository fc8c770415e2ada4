"""What the network asks of the cache: each sequence's recent rows, compressed rows and half-filled windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

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


class Memory(Protocol):
    """Rows go in as float32 and come back as the cache keeps them, in float32."""

    def recent(self, layer: int, span: Span, count: int) -> Tensor:
        """The window's last ``count`` rows before the span, oldest first: [count, D]."""
        ...

    def keep_recent(self, layer: int, span: Span, rows: Tensor) -> Tensor:
        """Keep the span's rows [L, D] as far as the window holds them; gives all of them back, rounded."""
        ...

    def pending(self, layer: int, span: Span, kind: str) -> Tensor:
        """The compressor's state [slots, 2 o d], values then gates: the slot's own memory, to be written in place."""
        ...

    def add_rows(self, layer: int, span: Span, kind: str, first: int, rows: Tensor) -> None:
        """Keep compressed rows ``first`` and up of the span's sequence: [n, d]."""
        ...

    def rows(self, layer: int, span: Span, kind: str, count: int) -> Tensor:
        """The sequence's first ``count`` compressed rows: [count, d]."""
        ...
