"""A DeepSeek-V4 network's weights, ready to compute: decoded, in the dtype of their part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from isotherm.base.backend import Loaded, unwatched
from isotherm.base.errors import SetupError
from isotherm.kernels.cpu.amx import has_amx
from isotherm.kernels.cpu.tiled_weight import fits, pack_pairs
from isotherm.kernels.cpu.vector import LANES, has_pair_products
from isotherm.model import linear
from isotherm.model.deepseek_v4.config import Compression, DeepseekV4Config
from isotherm.model.linear import Linear
from isotherm.model.tensors import TensorSource

FEW_PAIRS = 3
"""Rows from which the matrix unit multiplies tiles of bfloat16 (see ``model.forms``)."""


@dataclass(frozen=True, slots=True)
class Hyper:
    """One sublayer's hyper-connection, float32; see ``kernels.reference.hyper.mix``."""

    fn: Tensor
    base: Tensor
    scale: Tensor


@dataclass(frozen=True, slots=True)
class Compressor:
    """``project`` gives values and gates [T, 2 o d] in float32; ape [r, o d]; norm [d]."""

    how: Compression
    project: Linear
    ape: Tensor
    norm: Tensor


@dataclass(frozen=True, slots=True)
class Indexer:
    """``queries`` reads the low-rank query, ``head_weights`` the layer's input."""

    queries: Linear
    head_weights: Linear
    compressor: Compressor


@dataclass(frozen=True, slots=True)
class AttentionWeights:
    """Norms and sink are float32. ``out_a`` has a layer for each group of heads, which makes its input of ``out_b``."""

    q_a: Linear
    q_norm: Tensor
    q_b: Linear
    kv: Linear
    kv_norm: Tensor
    out_a: list[Linear]
    out_b: Linear
    sink: Tensor
    compressor: Compressor | None
    indexer: Indexer | None


@dataclass(frozen=True, slots=True)
class MoeWeights:
    """``gate`` gives float32. ``by_token`` int64 [V, active] where tokens choose their experts, else ``bias`` [E].

    gate_up [E + 1, 2 I, C] stacks both inputs of SwiGLU, down [E + 1, C, I]; the last expert is the shared one.
    """

    gate: Linear
    bias: Tensor | None
    by_token: Tensor | None
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """A block: two sublayers, each with its hyper-connection and its norm."""

    attention_hyper: Hyper
    attention_norm: Tensor
    attention: AttentionWeights
    moe_hyper: Hyper
    moe_norm: Tensor
    moe: MoeWeights


@dataclass(frozen=True, slots=True)
class NetworkWeights:
    """``head`` gives logits in float32."""

    embedding: Tensor
    layers: list[LayerWeights]
    head_hyper: Hyper
    norm: Tensor
    head: Linear


def load_weights(
    config: DeepseekV4Config,
    tensors: Mapping[str, TensorSource],
    dtype: torch.dtype,
    device: torch.device,
    progress: Loaded = unwatched,
    *,
    row_by_row: bool = False,
) -> NetworkWeights:
    """Decode every tensor (names of the release); linear layers in ``dtype``, the rest in float32.

    ``row_by_row`` makes what is computed for up to ``dense.FEW_ROWS`` rows independent of how many they are.
    """
    loader = _Loader(config, tensors, dtype, device, FEW_PAIRS if not row_by_row else 1)
    layers = []
    for index in range(config.num_layers):
        layers.append(loader.layer(index))
        progress(index + 1, config.num_layers)
    return NetworkWeights(
        embedding=loader.values("embed.weight").to(dtype),
        layers=layers,
        head_hyper=loader.hyper("hc_head"),
        norm=loader.values("norm.weight"),
        head=loader.exact("head"),
    )


class _Loader:
    def __init__(
        self,
        config: DeepseekV4Config,
        tensors: Mapping[str, TensorSource],
        dtype: torch.dtype,
        device: torch.device,
        few_pairs: int,
    ) -> None:
        self._config, self._tensors, self._dtype, self._device = config, tensors, dtype, device
        self._few_pairs = few_pairs
        self._pairs = device.type == "cpu" and has_pair_products()

    def values(self, name: str) -> Tensor:
        """A tensor in float32; SetupError if a number in it is none, or none that ``dtype`` holds."""
        values = np.array(self._tensors[name].dequantize())
        # A NaN is the largest and the smallest, and in no order with anything.
        if not max(values.max(), -values.min()) <= torch.finfo(self._dtype).max:
            raise SetupError(
                f"{name} holds a NaN, an infinity or a number beyond {str(self._dtype).removeprefix('torch.')}: "
                "the checkpoint is damaged. Download it again."
            )
        return torch.from_numpy(values).to(self._device)

    def hyper(self, stem: str) -> Hyper:
        return Hyper(*(self.values(f"{stem}_{part}") for part in ("fn", "base", "scale")))

    def layer(self, index: int) -> LayerWeights:
        prefix = f"layers.{index}."
        return LayerWeights(
            attention_hyper=self.hyper(prefix + "hc_attn"),
            attention_norm=self.values(prefix + "attn_norm.weight"),
            attention=self._attention(prefix + "attn.", self._config.layers[index]),
            moe_hyper=self.hyper(prefix + "hc_ffn"),
            moe_norm=self.values(prefix + "ffn_norm.weight"),
            moe=self._moe(prefix + "ffn.", self._config.routes_by_hash(index)),
        )

    def exact(self, *names: str) -> Linear:
        """A layer in float32, whatever the model's dtype; several that read the same input as one."""
        return self._form(torch.cat([self.values(name + ".weight") for name in names]))

    def _linear(self, name: str) -> Linear:
        return self._form(self.values(name + ".weight").to(self._dtype))

    def _form(self, weight: Tensor) -> Linear:
        if self._pairs and weight.dtype == torch.bfloat16 and fits(*weight.shape):
            return linear.TiledLinear(pack_pairs(weight), has_amx(), self._few_pairs)
        if weight.device.type == "cpu" and weight.shape[1] % LANES == 0:
            return linear.StoredLinear(weight, linear.build(weight, None, packed=False))
        return linear.build(weight, None, packed=False)

    def _attention(self, prefix: str, how: Compression | None) -> AttentionWeights:
        a = self._config.attention
        indexer = None
        if how is not None and how.indexed:
            indexer = Indexer(
                self._linear(prefix + "indexer.wq_b"),
                self._linear(prefix + "indexer.weights_proj"),
                self._compressor(prefix + "indexer.compressor.", how),
            )
        groups = self.values(prefix + "wo_a.weight").to(self._dtype)
        return AttentionWeights(
            q_a=self._linear(prefix + "wq_a"),
            q_norm=self.values(prefix + "q_norm.weight"),
            q_b=self._linear(prefix + "wq_b"),
            kv=self._linear(prefix + "wkv"),
            kv_norm=self.values(prefix + "kv_norm.weight"),
            out_a=[self._form(part) for part in torch.split(groups, a.o_rank)],
            out_b=self._linear(prefix + "wo_b"),
            sink=self.values(prefix + "attn_sink"),
            compressor=None if how is None else self._compressor(prefix + "compressor.", how),
            indexer=indexer,
        )

    def _compressor(self, prefix: str, how: Compression) -> Compressor:
        norm = self.values(prefix + "norm.weight")
        ape = torch.zeros(how.ratio, how.overlap * len(norm), device=self._device)
        if how.ape:
            ape = self.values(prefix + "ape")
        return Compressor(how, self.exact(prefix + "wkv", prefix + "wgate"), ape, norm)

    def _moe(self, prefix: str, by_hash: bool) -> MoeWeights:
        by_token = None
        if by_hash:
            ids = np.ascontiguousarray(self._tensors[prefix + "gate.tid2eid"].raw()).view(np.int64)
            if ids.min() < 0 or ids.max() >= self._config.experts.count:
                raise SetupError(
                    f"{prefix}gate.tid2eid names experts from {ids.min()} to {ids.max()} of "
                    f"{self._config.experts.count}: the checkpoint is damaged. Download it again."
                )
            by_token = torch.from_numpy(ids.copy()).to(self._device)
        shared = prefix + "shared_experts."
        experts = [f"{prefix}experts.{index}." for index in range(self._config.experts.count)]
        return MoeWeights(
            gate=self.exact(prefix + "gate"),
            bias=None if by_hash else self.values(prefix + "gate.bias"),
            by_token=by_token,
            gate_up=self._stack([*experts, shared], "w1", "w3"),
            down=self._stack([*experts, shared], "w2"),
        )

    def _stack(self, experts: list[str], *names: str) -> Tensor:
        """The same layers of all experts as one tensor, filled one by one: they are most of a network."""
        parts = [self._tensors[f"{experts[0]}{name}.weight"].shape for name in names]
        rows = sum(shape[0] for shape in parts)
        stacked = torch.empty(len(experts), rows, parts[0][1], dtype=self._dtype, device=self._device)
        for place, expert in enumerate(experts):
            stacked[place] = torch.cat([self.values(f"{expert}{name}.weight") for name in names])
        return stacked
