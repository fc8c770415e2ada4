"""A DeepSeek-V4 network's weights, ready to compute: decoded, in the dtype of their part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from isotherm.base.errors import SetupError
from isotherm.model import linear
from isotherm.model.deepseek_v4.config import Compression, DeepseekV4Config
from isotherm.model.linear import Linear
from isotherm.model.tensors import TensorSource

Progress = Callable[[int, int], None]
"""Called with layers done and layers in all."""


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
    project: Tensor
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
    """Norms and sink are float32. ``out_a`` [groups, rank, group width] makes each group's input of ``out_b``."""

    q_a: Linear
    q_norm: Tensor
    q_b: Linear
    kv: Linear
    kv_norm: Tensor
    out_a: Tensor
    out_b: Linear
    sink: Tensor
    compressor: Compressor | None
    indexer: Indexer | None


@dataclass(frozen=True, slots=True)
class Expert:
    """``gate_up`` stacks both inputs of SwiGLU."""

    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True)
class MoeWeights:
    """``gate`` float32 [E, C]. ``by_token`` int64 [V, active] where tokens choose their experts, else ``bias`` [E]."""

    gate: Tensor
    bias: Tensor | None
    by_token: Tensor | None
    experts: list[Expert]
    shared: Expert


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
    head: Tensor


def load_weights(
    config: DeepseekV4Config,
    tensors: Mapping[str, TensorSource],
    dtype: torch.dtype,
    device: torch.device,
    progress: Progress | None = None,
) -> NetworkWeights:
    """Decode every tensor (names of the release); linear layers in ``dtype``, the rest in float32."""
    loader = _Loader(config, tensors, dtype, device)
    layers = []
    for index in range(config.num_layers):
        layers.append(loader.layer(index))
        if progress:
            progress(index + 1, config.num_layers)
    return NetworkWeights(
        embedding=loader.values("embed.weight").to(dtype),
        layers=layers,
        head_hyper=loader.hyper("hc_head"),
        norm=loader.values("norm.weight"),
        head=loader.values("head.weight"),
    )


class _Loader:
    def __init__(
        self, config: DeepseekV4Config, tensors: Mapping[str, TensorSource], dtype: torch.dtype, device: torch.device
    ) -> None:
        self._config, self._tensors, self._dtype, self._device = config, tensors, dtype, device
        self._packed = dtype == torch.bfloat16 and device.type == "cpu" and linear.packing_works()

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

    def _linear(self, *names: str) -> Linear:
        weight = torch.cat([self.values(name + ".weight") for name in names])
        return linear.build(weight.to(self._dtype), None, packed=self._packed)

    def _attention(self, prefix: str, how: Compression | None) -> AttentionWeights:
        a = self._config.attention
        indexer = None
        if how is not None and how.indexed:
            indexer = Indexer(
                self._linear(prefix + "indexer.wq_b"),
                self._linear(prefix + "indexer.weights_proj"),
                self._compressor(prefix + "indexer.compressor.", how),
            )
        return AttentionWeights(
            q_a=self._linear(prefix + "wq_a"),
            q_norm=self.values(prefix + "q_norm.weight"),
            q_b=self._linear(prefix + "wq_b"),
            kv=self._linear(prefix + "wkv"),
            kv_norm=self.values(prefix + "kv_norm.weight"),
            out_a=self.values(prefix + "wo_a.weight").to(self._dtype).view(a.o_groups, a.o_rank, -1),
            out_b=self._linear(prefix + "wo_b"),
            sink=self.values(prefix + "attn_sink"),
            compressor=None if how is None else self._compressor(prefix + "compressor.", how),
            indexer=indexer,
        )

    def _compressor(self, prefix: str, how: Compression) -> Compressor:
        project = torch.cat([self.values(prefix + "wkv.weight"), self.values(prefix + "wgate.weight")])
        width = project.shape[0] // 2
        ape = self.values(prefix + "ape") if how.ape else torch.zeros(how.ratio, width, device=self._device)
        return Compressor(how, project, ape, self.values(prefix + "norm.weight"))

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
        return MoeWeights(
            gate=self.values(prefix + "gate.weight"),
            bias=None if by_hash else self.values(prefix + "gate.bias"),
            by_token=by_token,
            experts=[self._expert(f"{prefix}experts.{index}.") for index in range(self._config.experts.count)],
            shared=self._expert(prefix + "shared_experts."),
        )

    def _expert(self, prefix: str) -> Expert:
        return Expert(self._linear(prefix + "w1", prefix + "w3"), self._linear(prefix + "w2"))
