"""Where the rows of a forward find what they see: worked out once, for all layers of a kind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from isotherm.kernels.layouts import Rows
from isotherm.kernels.reference.latent_attention import Seen
from isotherm.model.deepseek_v4.memory import DecodeRows, Span
from isotherm.model.deepseek_v4.rope import Rope, Turn


class Turns:
    """Rotations of a forward's rows in layers of either kind."""

    def __init__(self, rope: Rope, positions: Tensor, decode: DecodeRows | None) -> None:
        self._rope, self._positions, self._decode = rope, positions, decode
        self._windows: dict[int, Turn] = {}

    @cached_property
    def plain(self) -> Turn:
        return self._rope.at(self._positions, compressed=False)

    @cached_property
    def stretched(self) -> Turn:
        return self._rope.at(self._positions, compressed=True)

    def of_windows(self, ratio: int) -> Turn:
        """Those of the first position of each decode row's window."""
        assert self._decode is not None, "asked for rows that decode"
        if ratio not in self._windows:
            self._windows[ratio] = self._rope.at(self._decode.positions // ratio * ratio, compressed=True)
        return self._windows[ratio]


@dataclass(frozen=True, slots=True)
class Sight:
    """``seen`` of a layer's queries, and the most compressed rows that one of them may see."""

    seen: Seen
    most: int

    def among(self, chosen: Tensor) -> Seen:
        """The same with the indexer's choice, int32 [T, k]."""
        return replace(self.seen, counts=self.seen.counts.clamp(max=chosen.shape[1]), chosen=chosen)


def of_decode_rows(decode: DecodeRows, window: int, ratio: int | None) -> Sight:
    """What decode rows see, straight from the cache; their own tokens are in it already."""
    after = decode.positions + 1
    recents = after.clamp(max=window)
    counts = torch.zeros_like(after) if ratio is None else after // ratio
    of = torch.arange(len(after), device=after.device)
    seen = Seen(decode.slots, (after - recents) % window, recents, decode.tables, of, counts, None)
    return Sight(seen, int(counts.max()))


def of_span(span: Span, window: int, ratio: int | None, older: int, tables: Tensor) -> Sight:
    """What a span's rows see: the window's keys are the ``older`` rows before the span, then its own, on one page."""
    after = torch.arange(span.start + 1, span.end + 1, device=tables.device)
    recents, nothing = after.clamp(max=window), torch.zeros_like(after)
    counts = nothing if ratio is None else after // ratio
    seen = Seen(nothing, after - recents - (span.start - older), recents, tables, nothing, counts, None)
    return Sight(seen, span.end // ratio if ratio else 0)


def page_of(rows: Rows, span: Span, count: int) -> tuple[Tensor, Tensor]:
    """Page and row of a sequence's first ``count`` compressed rows."""
    index = torch.arange(count, device=span.blocks.device)
    return span.blocks[index // rows.per_page], index % rows.per_page
