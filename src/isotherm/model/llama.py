"""The Llama network (Touvron et al. 2023; grouped queries by Ainslie et al. 2023): token ids to logits.

The residual stream is float32 whatever the model's dtype; linear layers and the cache use the dtype.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from isotherm.base.block import BLOCK_SIZE
from isotherm.kernels.dispatch import Ops
from isotherm.model.batch import Batch
from isotherm.model.communicator import Communicator
from isotherm.model.config import LlamaConfig
from isotherm.model.linear import Linear

KV = list[tuple[Tensor, Tensor]]
"""Keys [N, G, E, B] and values [N, G, B, E] of every layer."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer's weights; norms are float32 [C]."""

    attention_norm: Tensor
    qkv: Linear
    output: Linear
    mlp_norm: Tensor
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True)
class Weights:
    """``embedding`` [V, C] in the model's dtype, ``cos`` and ``sin`` float32 [context, E/2]."""

    embedding: Tensor
    layers: list[Layer]
    norm: Tensor
    head: Linear
    cos: Tensor
    sin: Tensor


class Llama:
    """Computes one forward at a time; holds no state between them but its weights."""

    def __init__(
        self, config: LlamaConfig, weights: Weights, ops: Ops, dtype: torch.dtype, communicator: Communicator
    ) -> None:
        self.config, self.weights, self.ops, self.dtype = config, weights, ops, dtype
        self.communicator = communicator
        self._scale = config.head_dim**-0.5

    @property
    def device(self) -> torch.device:
        return self.weights.embedding.device

    def kv_block_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of one block's keys and values, which the cache allocates for every layer."""
        config = self.config
        return (
            (config.num_kv_heads, config.head_dim, BLOCK_SIZE),
            (config.num_kv_heads, BLOCK_SIZE, config.head_dim),
        )

    def forward(self, batch: Batch, kv: KV) -> Tensor:
        """Logits float32 [R, V] of the rows that the batch asks for; keys and values are written to ``kv``."""
        weights, ops, eps = self.weights, self.ops, self.config.rms_norm_eps
        x = F.embedding(batch.token_ids, weights.embedding).float()
        cos, sin = weights.cos[batch.positions], weights.sin[batch.positions]
        addend: Tensor | None = None
        for layer, cache in zip(weights.layers, kv, strict=True):
            hidden = ops.add_rms_norm(x, addend, layer.attention_norm, eps, self.dtype)
            attended = self._attend(layer.qkv(hidden), cos, sin, batch, *cache)
            addend = self.communicator.all_reduce(layer.output(attended))
            hidden = ops.add_rms_norm(x, addend, layer.mlp_norm, eps, self.dtype)
            addend = self.communicator.all_reduce(layer.down(ops.silu_mul(layer.gate_up(hidden))))
        if batch.logit_rows is not None:
            if not batch.logit_rows.numel():
                return x.new_empty((0, self.config.vocab_size))
            x = x[batch.logit_rows]
            addend = None if addend is None else addend[batch.logit_rows]
        return weights.head(ops.add_rms_norm(x, addend, weights.norm, eps, self.dtype)).float()

    def _attend(self, qkv: Tensor, cos: Tensor, sin: Tensor, batch: Batch, keys: Tensor, values: Tensor) -> Tensor:
        """Attention of all rows, [T, H * E] in the model's dtype."""
        query = self.ops.rotate_and_store(qkv, self.config.num_heads, cos, sin, batch.slots, keys, values)
        parts = [
            self.ops.attend_prefill(query[s.first : s.last], s.start, s.blocks, keys, values, self._scale)
            for s in batch.prefill
        ]
        if batch.lengths.numel():
            rows = query[batch.decode_first :]
            parts.append(self.ops.attend_decode(rows, batch.tables, batch.lengths, keys, values, self._scale))
        attended = parts[0] if len(parts) == 1 else torch.cat(parts)
        return attended.reshape(attended.shape[0], -1)
