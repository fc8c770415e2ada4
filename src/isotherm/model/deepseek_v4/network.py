"""The DeepSeek-V4 network: token ids to logits, over memory that a cache hands in.

Residual streams, norms, compressors, routing, sinks and logits are float32 whatever the model's dtype; linear layers
use the dtype.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from isotherm.kernels.dispatch import select_latent
from isotherm.model.deepseek_v4.attending import LatentAttention, Step
from isotherm.model.deepseek_v4.config import DeepseekV4Config
from isotherm.model.deepseek_v4.memory import DecodeRows, Memory, Span
from isotherm.model.deepseek_v4.places import Turns
from isotherm.model.deepseek_v4.rope import Rope
from isotherm.model.deepseek_v4.weights import Hyper, MoeWeights, NetworkWeights


@dataclass(frozen=True, slots=True)
class Forward:
    """Tokens that share a forward: those of ``spans``, then those that ``decode``.

    token_ids and positions int64 [T]; ``logit_rows`` int64 [R], None means all.
    """

    token_ids: Tensor
    positions: Tensor
    spans: Sequence[Span]
    logit_rows: Tensor | None
    decode: DecodeRows | None = None


class DeepseekV4:
    """Computes one forward at a time; holds no state between them but its weights.

    ``variants`` names operations to compare with (see ``kernels.dispatch``), ``longest`` is the longest context that
    those of them expect which do not look at the real one.
    """

    def __init__(
        self,
        config: DeepseekV4Config,
        weights: NetworkWeights,
        dtype: torch.dtype,
        *,
        variants: Collection[str] = (),
        longest: int = 0,
    ) -> None:
        a = config.attention
        self.config, self.weights, self.dtype = config, weights, dtype
        widths = config.hidden_size, a.head_dim, a.index_dim, a.q_rank, config.experts.inner
        ratios = [how.ratio for how in config.layers if how is not None and how.indexed]
        rows = longest // min(ratios, default=1)
        self.ops = select_latent(self.device, *widths, variants=variants, index_rows=rows)
        self._rope = Rope(a, self.device)
        self._attention = LatentAttention(a, self.ops, self._rope, config.rms_norm_eps, dtype)

    @property
    def device(self) -> torch.device:
        return self.weights.embedding.device

    def forward(self, batch: Forward, memory: Memory) -> Tensor:
        """Logits float32 [R, V] of the rows that the batch asks for; ``memory`` is read and written."""
        weights, h, eps = self.weights, self.config.hyper, self.config.rms_norm_eps
        step = Step(batch.spans, batch.decode, Turns(self._rope, batch.positions, batch.decode))
        streams = F.embedding(batch.token_ids, weights.embedding).float()[:, None].repeat(1, h.streams, 1)
        for index, layer in enumerate(weights.layers):
            x, *mixed = self._read(streams, layer.attention_hyper, layer.attention_norm)
            streams = self.ops.expand(self._attention(index, layer.attention, x, step, memory), streams, *mixed)
            x, *mixed = self._read(streams, layer.moe_hyper, layer.moe_norm)
            streams = self.ops.expand(self._mix_experts(layer.moe, x, batch.token_ids), streams, *mixed)
        if batch.logit_rows is not None:
            streams = streams[batch.logit_rows]
        end = weights.head_hyper
        return weights.head(self.ops.end(streams, end.fn, end.base, end.scale, weights.norm, h.eps, eps))

    def _read(self, streams: Tensor, connection: Hyper, norm: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A sublayer's input [T, C] in the model's dtype, and how its output is written back."""
        h = self.config.hyper
        x, post, comb = self.ops.read(
            streams, connection.fn, connection.base, connection.scale, norm, h.iterations, h.eps,
            self.config.rms_norm_eps,
        )  # fmt: skip
        return x.to(self.dtype), post, comb

    def _mix_experts(self, moe: MoeWeights, x: Tensor, token_ids: Tensor) -> Tensor:
        """The chosen experts' outputs by their weights, and the shared expert's: x [T, C] -> float32 [T, C]."""
        e = self.config.experts
        given = None if moe.by_token is None else moe.by_token[token_ids]
        ids, weights = self.ops.route(moe.gate(x.float()), moe.bias, given, e.active, e.scale)
        return self.ops.mix(x, ids, weights, moe.gate_up, moe.down, e.limit)
