"""The cache of a DeepSeek-V4 network: paged compressed rows, and for each sequence what has a fixed size.

Compressed rows lie in blocks of 256 tokens, which the block manager deals out. The window's rows and the windows that
compressors are filling lie in *slots*: one for each running sequence, and as many again as snapshots may be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from isotherm.cache.layouts import RowLayout
from isotherm.cache.zeros import zeros

LATENT_BLOCK = 256
"""Tokens of a block: a multiple of every compression ratio, so that no window is half full at its end."""


class SpanLike(Protocol):
    """One sequence's part of a forward; see ``model.deepseek_v4.memory.Span``."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def slot(self) -> int: ...
    @property
    def blocks(self) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Pooled:
    """One compressor of a layer: ``ratio`` tokens to a row of ``layout``, state [state_rows, state_width] float32."""

    layer: int
    kind: str
    ratio: int
    layout: RowLayout
    state_rows: int
    state_width: int


def block_bytes(compressors: Sequence[Pooled]) -> int:
    """Bytes of a block over all layers."""
    return sum(each.layout.page_bytes(LATENT_BLOCK // each.ratio) for each in compressors)


def slot_bytes(num_layers: int, window: int, layout: RowLayout, compressors: Sequence[Pooled]) -> int:
    """Bytes of a slot: the window's rows of every layer, and the states of compressors."""
    states = sum(4 * each.state_rows * each.state_width for each in compressors)
    return num_layers * layout.page_bytes(window) + states


class LatentPool:
    """Implements ``model.deepseek_v4.memory.Memory``."""

    def __init__(
        self,
        num_layers: int,
        window: int,
        window_layout: RowLayout,
        compressors: Sequence[Pooled],
        num_blocks: int,
        num_slots: int,
        device: torch.device,
    ) -> None:
        self.num_blocks, self.num_slots = num_blocks, num_slots
        self._window, self._layout = window, window_layout
        self._recent = [window_layout.allocate(num_slots, window, device) for _ in range(num_layers)]
        self._how = {(each.layer, each.kind): each for each in compressors}
        self._rows = {
            key: each.layout.allocate(num_blocks, LATENT_BLOCK // each.ratio, device) for key, each in self._how.items()
        }
        self._state = {
            key: zeros((num_slots, each.state_rows, each.state_width), torch.float32, device)
            for key, each in self._how.items()
        }

    def recent(self, layer: int, span: SpanLike, count: int) -> Tensor:
        """The window's last ``count`` rows before the span, oldest first: float32 [count, D]."""
        positions = torch.arange(span.start - count, span.start)
        return self._layout.read(self._recent[layer], self._slots(span, count), positions % self._window)

    def keep_recent(self, layer: int, span: SpanLike, rows: Tensor) -> Tensor:
        """Keep the span's rows [L, D] as far as the window holds them; gives all of them back, rounded."""
        store, length = self._recent[layer], len(rows)
        kept: list[Tensor] = []
        # A window at a time, so that rows which the window cannot hold are rounded in the same place.
        for first in range(0, length, self._window):
            part = rows[first : first + self._window]
            places = torch.arange(span.start + first, span.start + first + len(part)) % self._window
            slots = self._slots(span, len(part))
            self._layout.write(store, slots, places, part)
            kept.append(self._layout.read(store, slots, places))
        return torch.cat(kept)

    def pending(self, layer: int, span: SpanLike, kind: str) -> Tensor:
        """The compressor's state: the slot's own memory, written in place."""
        return self._state[layer, kind][span.slot]

    def add_rows(self, layer: int, span: SpanLike, kind: str, first: int, rows: Tensor) -> None:
        """Keep compressed rows ``first`` and up of the span's sequence."""
        page, row = self._places(layer, span, kind, first, first + len(rows))
        self._how[layer, kind].layout.write(self._rows[layer, kind], page, row, rows)

    def rows(self, layer: int, span: SpanLike, kind: str, count: int) -> Tensor:
        """The sequence's first ``count`` compressed rows: float32 [count, d]."""
        page, row = self._places(layer, span, kind, 0, count)
        return self._how[layer, kind].layout.read(self._rows[layer, kind], page, row)

    def copy_slot(self, source: int, target: int) -> None:
        """Everything of fixed size from one slot to another: a snapshot is taken, or given back."""
        for store in (*self._recent, *self._state.values()):
            store[target] = store[source]

    def _slots(self, span: SpanLike, count: int) -> Tensor:
        return torch.full((count,), span.slot)

    def _places(self, layer: int, span: SpanLike, kind: str, first: int, last: int) -> tuple[Tensor, Tensor]:
        per_block = LATENT_BLOCK // self._how[layer, kind].ratio
        index = torch.arange(first, last)
        return span.blocks[index // per_block], index % per_block
