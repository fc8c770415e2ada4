"""The plainest memory that a DeepSeek-V4 network can be given: every row of every sequence, in float32."""

from __future__ import annotations

import torch
from torch import Tensor

from isotherm.model.deepseek_v4.config import DeepseekV4Config
from isotherm.model.deepseek_v4.memory import INDEX, Span


class PlainMemory:
    """Rows in growing tensors by (layer, slot); nothing is rounded, released or shared."""

    def __init__(self, config: DeepseekV4Config) -> None:
        self._config = config
        self._recent: dict[tuple[int, int], Tensor] = {}
        self._rows: dict[tuple[int, int, str], Tensor] = {}
        self._pending: dict[tuple[int, int, str], Tensor] = {}

    def recent(self, layer: int, span: Span, count: int) -> Tensor:
        rows = self._recent.get((layer, span.slot), torch.empty(0, self._config.head_dim))[: span.start]
        assert len(rows) == span.start
        return rows[span.start - count :]

    def keep_recent(self, layer: int, span: Span, rows: Tensor) -> Tensor:
        old = self._recent.get((layer, span.slot), rows[:0])[: span.start]
        self._recent[layer, span.slot] = torch.cat((old, rows))
        return rows

    def pending(self, layer: int, span: Span, kind: str) -> Tensor:
        key = (layer, span.slot, kind)
        if span.start == 0 or key not in self._pending:
            how = self._config.layers[layer]
            width = self._config.attention.index_dim if kind == INDEX else self._config.head_dim
            self._pending[key] = torch.full((how.overlap * how.ratio, 2 * how.overlap * width), float("nan"))
        return self._pending[key]

    def add_rows(self, layer: int, span: Span, kind: str, first: int, rows: Tensor) -> None:
        old = self._rows.get((layer, span.slot, kind), rows[:0])[:first]
        assert len(old) == first
        self._rows[layer, span.slot, kind] = torch.cat((old, rows))

    def rows(self, layer: int, span: Span, kind: str, count: int) -> Tensor:
        rows = self._rows.get((layer, span.slot, kind))
        if rows is None:
            how_wide = self._config.attention.index_dim if kind == INDEX else self._config.head_dim
            return torch.empty(0, how_wide)
        assert len(rows) >= count
        return rows[:count]
