"""One layer's attention: queries and rows from its input, compression, choice, and the attention over what is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from isotherm.kernels.dispatch import LatentOps
from isotherm.kernels.layouts import PlainRows, Rows, loose
from isotherm.model.deepseek_v4.compressing import compress_tokens
from isotherm.model.deepseek_v4.config import Attention
from isotherm.model.deepseek_v4.memory import INDEX, MAIN, DecodeRows, Memory, Span
from isotherm.model.deepseek_v4.places import Sight, Turns, of_decode_rows, of_span, page_of
from isotherm.model.deepseek_v4.rope import Rope, Turn
from isotherm.model.deepseek_v4.weights import AttentionWeights, Compressor, Indexer


class Step:
    """What all layers of a forward share: spans first, then rows that decode. ``longest`` is the longest context."""

    def __init__(self, spans: Sequence[Span], decode: DecodeRows | None, turns: Turns) -> None:
        self.spans, self.decode, self.turns = spans, decode, turns
        ends = [span.end for span in spans]
        if decode is not None:
            ends.append(int(decode.positions.max()) + 1)
        self.longest = max(ends)
        self._decode_sights: dict[int | None, Sight] = {}

    def decode_sight(self, window: int, ratio: int | None) -> Sight:
        """Of decode rows in a layer of this ratio."""
        assert self.decode is not None, "asked for rows that decode"
        if ratio not in self._decode_sights:
            self._decode_sights[ratio] = of_decode_rows(self.decode, window, ratio)
        return self._decode_sights[ratio]


@dataclass(frozen=True, slots=True)
class Looking:
    """What the rows of a layer look with: queries [T, H, D]; the indexer's, and weights of its heads; their turns."""

    queries: Tensor
    index: tuple[Tensor, Tensor] | None
    turn: Turn

    def part(self, first: int, last: int) -> Looking:
        """Those of some rows."""
        rows = slice(first, last)
        index = None if self.index is None else (self.index[0][rows], self.index[1][rows])
        return Looking(self.queries[rows], index, (self.turn[0][rows], self.turn[1][rows]))


class LatentAttention:
    """Attention of any layer, by its weights."""

    def __init__(self, sizes: Attention, ops: LatentOps, rope: Rope, eps: float, dtype: torch.dtype) -> None:
        self._sizes, self._ops, self._rope, self._eps, self._dtype = sizes, ops, rope, eps, dtype

    def __call__(self, layer: int, w: AttentionWeights, x: Tensor, step: Step, memory: Memory) -> Tensor:
        """Attention of all rows of a forward: x [T, C] in the model's dtype -> [T, C]."""
        a, ops = self._sizes, self._ops
        turn = step.turns.plain if w.compressor is None else step.turns.stretched
        low = ops.norm(w.q_a(x), w.q_norm, self._eps).to(self._dtype)
        queries = ops.turn(w.q_b(low).view(len(x), a.num_heads, a.head_dim), *turn, self._eps)
        rows = ops.turn(w.kv(x), *turn, self._eps, w.kv_norm)
        if w.compressor is not None:
            self._compress(w.compressor, layer, MAIN, x, step, memory)
        index = None
        if w.indexer is not None:
            self._compress(w.indexer.compressor, layer, INDEX, x, step, memory)
            if step.longest // w.indexer.compressor.how.ratio > a.index_topk:
                # Shorter contexts have nothing to choose from.
                index = self._index_queries(w.indexer, x, low, turn)
        looking = Looking(queries, index, turn)
        parts = [
            self._attend_span(layer, w, span, looking.part(span.first, span.last), rows[span.first : span.last], memory)
            for span in step.spans
        ]
        if step.decode is not None:
            first = len(x) - len(step.decode.slots)
            parts.append(self._attend_decode(layer, w, step, looking.part(first, len(x)), rows[first:], memory))
        attended = (parts[0] if len(parts) == 1 else torch.cat(parts)).to(self._dtype).flatten(1)
        reduced = [reduce(part) for reduce, part in zip(w.out_a, attended.chunk(a.o_groups, 1), strict=True)]
        return w.out_b(torch.cat(reduced, dim=1).to(self._dtype))

    def _compress(self, compressor: Compressor, layer: int, kind: str, x: Tensor, step: Step, memory: Memory) -> None:
        states, rows = memory.states(layer, kind), memory.compressed(layer, kind)
        fresh = compressor.project(x.float())
        for span in step.spans:
            part = fresh[span.first : span.last]
            compress_tokens(compressor, part, span, states, rows, self._ops, self._rope, self._eps)
        if (decode := step.decode) is not None:
            self._ops.compress_rows(
                fresh[len(x) - len(decode.slots) :], compressor.ape, compressor.norm, self._eps,
                *step.turns.of_windows(compressor.how.ratio), states, decode.slots, decode.positions, decode.tables,
                rows,
            )  # fmt: skip

    def _index_queries(self, indexer: Indexer, x: Tensor, low: Tensor, turn: Turn) -> tuple[Tensor, Tensor]:
        """The indexer's queries [T, H, D], and the weights of its heads [T, H]: float32."""
        a = self._sizes
        queries = self._ops.turn(indexer.queries(low).view(len(x), a.index_heads, a.index_dim), *turn)
        return queries, indexer.head_weights(x).float() * (a.index_dim * a.index_heads) ** -0.5

    def _attend_decode(
        self, layer: int, w: AttentionWeights, step: Step, looking: Looking, rows: Tensor, memory: Memory
    ) -> Tensor:
        """Rows of one token each, over the cache as it lies: [D, H, D]."""
        decode, window = step.decode, memory.window(layer)
        assert decode is not None, "called for rows that decode"
        self._ops.write_rows(window, decode.slots, decode.positions % window.per_page, rows)
        ratio = None if w.compressor is None else w.compressor.how.ratio
        sight = step.decode_sight(window.per_page, ratio)
        compressed = window if w.compressor is None else memory.compressed(layer, MAIN)
        index = memory.compressed(layer, INDEX) if w.indexer is not None else None
        return self._attend(w, looking, window, sight, compressed, index)

    def _attend_span(
        self, layer: int, w: AttentionWeights, span: Span, looking: Looking, rows: Tensor, memory: Memory
    ) -> Tensor:
        """One sequence's chunk: the window's rows before it and its own side by side, [L, H, D]."""
        window = memory.window(layer)
        older, ratio, tables = min(span.start, window.per_page - 1), None, span.blocks[None]
        recent = self._recent(window, span, older, rows)
        compressed, index = recent, None
        if w.compressor is not None:
            ratio = w.compressor.how.ratio
            compressed = memory.compressed(layer, MAIN)
            index = memory.compressed(layer, INDEX) if w.indexer is not None else None
            if not _exact(compressed):
                # Many queries read these rows: they are unpacked once. Whatever was rounded to bfloat16 or fewer bits
                # is kept by bfloat16 to the last one; keys of the indexer have scales that are not.
                count, tables = span.end // ratio, torch.zeros_like(tables)
                compressed = loose(self._ops.read_rows(compressed, *page_of(compressed, span, count)).bfloat16())
                index = index and loose(self._ops.read_rows(index, *page_of(index, span, count)))
        return self._attend(w, looking, recent, of_span(span, window.per_page, ratio, older, tables), compressed, index)

    def _recent(self, window: Rows, span: Span, older: int, rows: Tensor) -> Rows:
        """The window's last ``older`` rows and the span's own, which are kept as far as the window holds them."""
        slot = torch.full((max(older, span.length),), span.slot, device=rows.device)
        before = torch.arange(span.start - older, span.start, device=rows.device) % window.per_page
        keys = torch.cat((self._ops.read_rows(window, slot[:older], before), window.layout.rounded(rows)))
        kept = min(span.length, window.per_page)
        places = torch.arange(span.end - kept, span.end, device=rows.device) % window.per_page
        self._ops.write_rows(window, slot[:kept], places, rows[-kept:])
        return loose(keys if _exact(window) else keys.bfloat16())

    def _attend(
        self, w: AttentionWeights, looking: Looking, window: Rows, sight: Sight, rows: Rows, index: Rows | None
    ) -> Tensor:
        a, seen = self._sizes, sight.seen
        if index is not None and looking.index is not None and sight.most > a.index_topk:
            chosen = self._ops.choose(*looking.index, index, seen.tables, seen.of, seen.counts, a.index_topk)
            seen = sight.among(chosen)
        return self._ops.attend(looking.queries, window, seen, rows, w.sink, a.head_dim**-0.5, *looking.turn)


def _exact(rows: Rows) -> bool:
    return isinstance(rows.layout, PlainRows) and rows.layout.dtype == torch.float32
