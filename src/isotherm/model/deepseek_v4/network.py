"""The DeepSeek-V4 network: token ids to logits, over memory that a cache hands in.

Residual streams, norms, compressors, routing, sinks and logits are float32 whatever the model's dtype; linear layers
use the dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from isotherm.kernels.dispatch import select_latent
from isotherm.kernels.reference import experts, hyper
from isotherm.kernels.reference.compress import index_scores, top_rows
from isotherm.kernels.reference.latent_attention import attend_latent
from isotherm.model.deepseek_v4.compressing import compress
from isotherm.model.deepseek_v4.config import DeepseekV4Config
from isotherm.model.deepseek_v4.memory import INDEX, MAIN, Memory, Span
from isotherm.model.deepseek_v4.rope import Rope
from isotherm.model.deepseek_v4.weights import Expert, Hyper, Indexer, MoeWeights, NetworkWeights


@dataclass(frozen=True, slots=True)
class Forward:
    """Spans that share a forward. token_ids and positions int64 [T]; ``logit_rows`` int64 [R], None means all."""

    token_ids: Tensor
    positions: Tensor
    spans: Sequence[Span]
    logit_rows: Tensor | None


class DeepseekV4:
    """Computes one forward at a time; holds no state between them but its weights."""

    def __init__(self, config: DeepseekV4Config, weights: NetworkWeights, dtype: torch.dtype) -> None:
        self.config, self.weights, self.dtype = config, weights, dtype
        self.ops = select_latent(weights.embedding.device)
        self._rope = Rope(config.attention, weights.embedding.device)

    @property
    def device(self) -> torch.device:
        return self.weights.embedding.device

    def forward(self, batch: Forward, memory: Memory) -> Tensor:
        """Logits float32 [R, V] of the rows that the batch asks for; ``memory`` is read and written."""
        weights, h, eps = self.weights, self.config.hyper, self.config.rms_norm_eps
        streams = F.embedding(batch.token_ids, weights.embedding).float()[:, None].repeat(1, h.streams, 1)
        for index, layer in enumerate(weights.layers):
            x, mixed = self._read(streams, layer.attention_hyper, layer.attention_norm)
            streams = self.ops.expand(self._attend(index, x, batch, memory), streams, *mixed)
            x, mixed = self._read(streams, layer.moe_hyper, layer.moe_norm)
            streams = self.ops.expand(self._mix_experts(layer.moe, x, batch.token_ids), streams, *mixed)
        if batch.logit_rows is not None:
            streams = streams[batch.logit_rows]
        end = weights.head_hyper
        pre = hyper.head_weights(streams, end.fn, end.base, end.scale, h.eps, eps)
        return F.linear(self._norm(self.ops.collapse(streams, pre), weights.norm), weights.head)

    def _read(self, streams: Tensor, connection: Hyper, norm: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """A sublayer's input [T, C] in the model's dtype, and how its output is written back."""
        h = self.config.hyper
        pre, post, comb = self.ops.mix(
            streams, connection.fn, connection.base, connection.scale, h.iterations, h.eps, self.config.rms_norm_eps
        )
        return self._norm(self.ops.collapse(streams, pre), norm).to(self.dtype), (post, comb)

    def _norm(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """Root mean square 1 over the last axis, times the weight: float32."""
        return F.rms_norm(x.float(), x.shape[-1:], weight, self.config.rms_norm_eps)

    def _attend(self, index: int, x: Tensor, batch: Forward, memory: Memory) -> Tensor:
        """Attention of all rows: x [T, C] -> [T, C]."""
        w, a = self.weights.layers[index].attention, self.config.attention
        cos, sin = self._rope.at(batch.positions, compressed=w.compressor is not None)
        low = self._norm(w.q_a(x), w.q_norm).to(self.dtype)
        query = self.ops.rotate_last(self._norm(w.q_b(low).view(len(x), a.num_heads, a.head_dim)), cos, sin)
        rows = self.ops.rotate_last(self._norm(w.kv(x), w.kv_norm), cos, sin)
        attended = torch.empty(len(x), a.num_heads, a.head_dim, device=x.device)
        for span in batch.spans:
            part = slice(span.first, span.last)
            turn = (cos[part], sin[part])
            attended[part] = self._attend_span(index, span, x[part], low[part], query[part], rows[part], turn, memory)
        attended = self.ops.rotate_last(attended, cos, sin, back=True).to(self.dtype)
        grouped = attended.view(len(x), a.o_groups, -1)
        reduced = torch.einsum("tgd,grd->tgr", grouped, w.out_a).flatten(1)
        return w.out_b(reduced)

    def _attend_span(
        self,
        index: int,
        span: Span,
        x: Tensor,
        low: Tensor,
        query: Tensor,
        rows: Tensor,
        turn: tuple[Tensor, Tensor],
        memory: Memory,
    ) -> Tensor:
        """Attention of one sequence's rows over its window and its compressed rows: [L, H, D]."""
        w, a = self.weights.layers[index].attention, self.config.attention
        older = min(span.start, a.window - 1)
        before = memory.recent(index, span, older)
        keys = torch.cat((before, memory.keep_recent(index, span, rows)))
        positions = torch.arange(span.start, span.end, device=x.device)[:, None]
        at = torch.arange(span.start - older, span.end, device=x.device)[None]
        seen = (at <= positions) & (at > positions - a.window)
        if w.compressor is not None:
            compress(w.compressor, x, span, index, MAIN, memory, self._rope, self.config.rms_norm_eps)
            ratio = w.compressor.how.ratio
            count = span.end // ratio
            visible = torch.arange(count, device=x.device)[None] < (positions + 1) // ratio
            if w.indexer is not None:
                visible = self._select(w.indexer, index, span, x, low, turn, visible, memory)
            keys = torch.cat((keys, memory.rows(index, span, MAIN, count)))
            seen = torch.cat((seen, visible), dim=1)
        return attend_latent(query, keys, seen, w.sink, a.head_dim**-0.5)

    def _select(
        self,
        indexer: Indexer,
        index: int,
        span: Span,
        x: Tensor,
        low: Tensor,
        turn: tuple[Tensor, Tensor],
        visible: Tensor,
        memory: Memory,
    ) -> Tensor:
        """Which compressed rows each of the span's rows attends to: bool [L, n]."""
        a = self.config.attention
        compress(indexer.compressor, x, span, index, INDEX, memory, self._rope, self.config.rms_norm_eps)
        count = visible.shape[1]
        if count <= a.index_topk:
            return visible
        queries = self.ops.rotate_last(indexer.queries(low).view(len(x), a.index_heads, a.index_dim).float(), *turn)
        weights = indexer.head_weights(x).float() * (a.index_dim * a.index_heads) ** -0.5
        scores = index_scores(queries, weights, memory.rows(index, span, INDEX, count))
        return top_rows(scores, visible, a.index_topk)

    def _mix_experts(self, moe: MoeWeights, x: Tensor, token_ids: Tensor) -> Tensor:
        """The chosen experts' outputs by their weights, and the shared expert's: x [T, C] -> float32 [T, C]."""
        e = self.config.experts
        affinity = experts.scores(x, moe.gate)
        if moe.by_token is not None:
            ids = moe.by_token[token_ids]
        else:
            assert moe.bias is not None, "a layer routes by token or by score"
            ids = experts.best_experts(affinity, moe.bias, e.active)
        weights = experts.routing_weights(affinity, ids, e.scale)
        out = self._expert(moe.shared, x, None)
        for expert in sorted(set(ids.flatten().tolist())):
            rows, place = (ids == expert).nonzero(as_tuple=True)
            out.index_add_(0, rows, self._expert(moe.experts[expert], x[rows], weights[rows, place]))
        return out

    def _expert(self, expert: Expert, x: Tensor, weight: Tensor | None) -> Tensor:
        gate, up = expert.gate_up(x).chunk(2, dim=-1)
        hidden = experts.clamped_swiglu(gate, up, self.config.experts.limit)
        if weight is not None:
            hidden = hidden * weight[:, None]
        return expert.down(hidden.to(self.dtype)).float()
