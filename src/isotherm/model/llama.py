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
from isotherm.model.stack import Stack

KV = tuple[Tensor, Tensor]
"""Keys and values of all layers, the layer as first axis; see ``kernels.reference.ops`` for what a layer's are."""


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
    """``embedding`` [V, C] in the model's dtype, ``cos`` and ``sin`` float32 [context, E/2].

    ``stack`` runs whole forwards in one compiled call, where it can; ``layers`` is empty where it runs all of them.
    """

    embedding: Tensor
    layers: list[Layer]
    norm: Tensor
    head: Linear
    cos: Tensor
    sin: Tensor
    stack: Stack | None = None


class Llama:
    """Computes one forward at a time; holds no state between them but its weights."""

    def __init__(
        self,
        config: LlamaConfig,
        weights: Weights,
        ops: Ops,
        dtype: torch.dtype,
        communicator: Communicator,
    ) -> None:
        self.config, self.weights, self.ops, self.dtype = config, weights, ops, dtype
        self.communicator = communicator
        self._scale = config.head_dim**-0.5

    @property
    def device(self) -> torch.device:
        return self.weights.embedding.device

    @property
    def independent_rows(self) -> bool:
        """Whether a prompt's results are the same bits whatever shares its forward and however it was cut."""
        return self.weights.stack is not None and self.weights.stack.unit

    @property
    def kernels(self) -> str:
        """What computes: the operations, the linear layers of the head, and whether a forward is one call."""
        stack = self.weights.stack
        one_call = f", {stack.name}" if stack else ""
        layers = f", {self.weights.layers[0].qkv.name} linear layers" if self.weights.layers else ""
        return f"{self.ops.name}{layers}, {self.weights.head.name} head{one_call}"

    def kv_block_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of one block's keys and values, which the cache allocates for every layer."""
        groups, size = self.config.num_kv_heads, self.config.head_dim
        pair = 2 if self.dtype == torch.bfloat16 else 1
        return (groups, size // pair, BLOCK_SIZE, pair), (groups, BLOCK_SIZE // pair, size, pair)

    def forward(self, batch: Batch, kv: KV) -> Tensor:
        """Logits float32 [R, V] of the rows that the batch asks for; keys and values are written to ``kv``."""
        weights, eps = self.weights, self.config.rms_norm_eps
        if batch.logit_rows is not None and not batch.logit_rows.numel():
            self._layers(batch, kv)
            return torch.empty((0, self.config.vocab_size), device=self.device)
        x, addend = self._layers(batch, kv)
        if batch.logit_rows is not None:
            x, addend = x[batch.logit_rows], None if addend is None else addend[batch.logit_rows]
        return weights.head(self.ops.add_rms_norm(x, addend, weights.norm, eps, self.dtype)).float()

    def _layers(self, batch: Batch, kv: KV) -> tuple[Tensor, Tensor | None]:
        """The residual stream after all layers, and the last sublayer's output if still to be added: [T, C] each."""
        weights, ops, eps = self.weights, self.ops, self.config.rms_norm_eps
        x = F.embedding(batch.token_ids, weights.embedding).float()
        cos, sin = weights.cos[batch.positions], weights.sin[batch.positions]
        if weights.stack is not None and weights.stack.takes(batch):
            weights.stack.run(x, cos, sin, batch, *kv)
            return x, None
        addend: Tensor | None = None
        for layer, keys, values in zip(weights.layers, *kv, strict=True):
            hidden = ops.add_rms_norm(x, addend, layer.attention_norm, eps, self.dtype)
            attended = self._attend(layer.qkv(hidden), cos, sin, batch, keys, values)
            addend = self.communicator.all_reduce(layer.output(attended))
            hidden = ops.add_rms_norm(x, addend, layer.mlp_norm, eps, self.dtype)
            addend = self.communicator.all_reduce(layer.down(ops.silu_mul(layer.gate_up(hidden))))
        return x, addend

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
