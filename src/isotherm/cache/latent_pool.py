"""The cache of a DeepSeek-V4 network: paged compressed rows, and for each sequence what has a fixed size.

Compressed rows lie in blocks of 256 tokens, which the block manager deals out. The window's rows and the windows that
compressors are filling lie in *slots*: one for each running sequence, and as many again as snapshots may be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from isotherm.kernels.layouts import RowLayout, Rows
from isotherm.kernels.zeros import zeros

LATENT_BLOCK = 256
"""Tokens of a block: a multiple of every compression ratio, so that no window is half full at its end."""


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
        self._windows = [
            Rows(window_layout, window_layout.allocate(num_slots, window, device), window) for _ in range(num_layers)
        ]
        self._rows: dict[tuple[int, str], Rows] = {}
        self._states: dict[tuple[int, str], Tensor] = {}
        for each in compressors:
            key, per_block = (each.layer, each.kind), LATENT_BLOCK // each.ratio
            self._rows[key] = Rows(each.layout, each.layout.allocate(num_blocks, per_block, device), per_block)
            self._states[key] = zeros((num_slots, each.state_rows, each.state_width), torch.float32, device)

    def window(self, layer: int) -> Rows:
        """The layer's recent rows: a slot is a page, position p lies in row p modulo the window."""
        return self._windows[layer]

    def compressed(self, layer: int, kind: str) -> Rows:
        """The layer's compressed rows: a block is a page."""
        return self._rows[layer, kind]

    def states(self, layer: int, kind: str) -> Tensor:
        """Half-filled windows of the layer's compressor: float32 [slots, state_rows, state_width]."""
        return self._states[layer, kind]

    def tensors(self) -> list[Tensor]:
        """All memory of the pool."""
        return [rows.data for rows in (*self._windows, *self._rows.values())] + list(self._states.values())

    def copy_slot(self, source: int, target: int) -> None:
        """Everything of fixed size from one slot to another: a snapshot is taken, or given back."""
        for store in (*(rows.data for rows in self._windows), *self._states.values()):
            store[target] = store[source]
