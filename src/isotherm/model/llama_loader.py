"""A Llama checkpoint made ready to compute: fused, cast, packed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from isotherm.kernels import dispatch
from isotherm.model import linear, quantised, rope
from isotherm.model.communicator import Communicator
from isotherm.model.config import LlamaConfig
from isotherm.model.linear import ByRowsLinear, Linear, QuantLinear
from isotherm.model.llama import Layer, Llama, Weights
from isotherm.model.tensors import TensorSource

if TYPE_CHECKING:
    from isotherm.kernels.cpu.decode_stack import StackWeights

FEW_ROWS = 64
"""Rows from which packed bfloat16 beats quantised weights; below it, memory is the limit."""

Progress = Callable[[int, int], None]
"""Called with layers done and layers in all."""


def load_llama(
    config: LlamaConfig,
    tensors: Mapping[str, TensorSource],
    *,
    dtype: torch.dtype,
    max_model_len: int,
    keep_quantised: bool = False,
    few_rows: int = FEW_ROWS,
    deterministic: bool = False,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> Llama:
    """Build the network from tensors in Hugging Face's naming.

    ``dtype`` is that of linear layers and cache. ``keep_quantised`` also keeps 4- and 8-bit weights as they are, for
    decode steps of fewer than ``few_rows`` rows. ``deterministic`` makes the results of so few rows independent of
    how many there are.
    """
    loader = _Loader(config, tensors, dtype, keep_quantised, few_rows, deterministic, device or torch.device("cpu"))
    cos, sin = (table.to(loader.device) for table in rope.tables(config, max_model_len))
    layers = []
    for index in range(config.num_layers):
        layers.append(loader.layer(f"model.layers.{index}."))
        if progress:
            progress(index + 1, config.num_layers)
    ops = dispatch.select(loader.device, dtype, config.hidden_size, config.head_dim // 2, config.intermediate_size)
    stack = _stack(layers, config) if ops is not dispatch.REFERENCE else None
    weights = Weights(
        embedding=loader.values("model.embed_tokens.weight"),
        layers=layers if stack is None else [_dense(layer) for layer in layers],
        norm=loader.norm("model.norm.weight"),
        head=loader.head("model.embed_tokens" if config.tie_word_embeddings else "lm_head"),
        cos=cos,
        sin=sin,
        stack=stack,
    )
    return Llama(config, weights, ops, dtype, few_rows, Communicator())


def _stack(layers: list[Layer], config: LlamaConfig) -> StackWeights | None:
    """The layers in the form that one compiled decode step reads, when all of them were kept quantised alike."""
    linears = [(layer.qkv, layer.output, layer.gate_up, layer.down) for layer in layers]
    weights = [
        tuple(each.few.weight for each in four if isinstance(each, ByRowsLinear) and each.few.bias is None)
        for four in linears
    ]
    if (
        any(len(four) < len(linears[0]) for four in weights)
        or len({each.bits for four in weights for each in four}) > 1
    ):
        return None
    from isotherm.kernels.cpu.decode_stack import StackWeights  # noqa: PLC0415 (numba loads only where it is used)

    norms = (
        np.stack([layer.attention_norm.numpy() for layer in layers]),
        np.stack([layer.mlp_norm.numpy() for layer in layers]),
    )
    return StackWeights.of(weights, norms, config.num_heads, config.rms_norm_eps)


def _dense(layer: Layer) -> Layer:
    """The layer for forwards that hold a prefill, once decode steps have the quantised weights.

    A prompt is computed with unrounded activations however short it is: it costs a few milliseconds once, and every
    later token reads the keys and values that it leaves.
    """
    four = ("qkv", "output", "gate_up", "down")
    return replace(layer, **{name: getattr(layer, name).many for name in four})


class _Loader:
    """Reads tensors by name and turns them into layers."""

    def __init__(
        self,
        config: LlamaConfig,
        tensors: Mapping[str, TensorSource],
        dtype: torch.dtype,
        keep_quantised: bool,
        few_rows: int,
        deterministic: bool,
        device: torch.device,
    ) -> None:
        self.device = device
        self._config, self._tensors, self._dtype, self._deterministic = config, tensors, dtype, deterministic
        self._keep_quantised, self._few_rows = keep_quantised and device.type == "cpu", few_rows
        self._packed = dtype == torch.bfloat16 and device.type == "cpu" and linear.packing_works()

    def layer(self, prefix: str) -> Layer:
        return Layer(
            attention_norm=self.norm(prefix + "input_layernorm.weight"),
            qkv=self._linear(*(f"{prefix}self_attn.{name}_proj" for name in "qkv")),
            output=self._linear(prefix + "self_attn.o_proj"),
            mlp_norm=self.norm(prefix + "post_attention_layernorm.weight"),
            gate_up=self._linear(prefix + "mlp.gate_proj", prefix + "mlp.up_proj"),
            down=self._linear(prefix + "mlp.down_proj"),
        )

    def values(self, name: str) -> Tensor:
        """A tensor in the model's dtype."""
        return torch.from_numpy(np.array(self._tensors[name].dequantize())).to(self.device, self._dtype)

    def norm(self, name: str) -> Tensor:
        return torch.from_numpy(np.array(self._tensors[name].dequantize())).to(self.device)

    def head(self, name: str) -> Linear:
        """The layer that makes logits: few rows ask for them, so a quantised one needs no second form."""
        source = self._tensors[name + ".weight"]
        if self._keep_quantised and quantised.keeps([source]):
            return QuantLinear(quantised.stack([source]), None)
        return self._linear(name)

    def _linear(self, *names: str) -> Linear:
        """Layers that read the same input, stacked into one."""
        sources, bias = [self._tensors[name + ".weight"] for name in names], self._bias(names)
        if self._keep_quantised and quantised.keeps(sources):
            kept = quantised.stack(sources)
            # Never asked for few decode rows, so it needs no fixed blocks: a prefill's shape is its prompt's.
            many = linear.build(quantised.expand(kept, self._dtype), bias, packed=self._packed)
            return ByRowsLinear(QuantLinear(kept, bias), many, self._few_rows)
        return self._dense(torch.cat([self.values(name + ".weight") for name in names]), bias)

    def _dense(self, weight: Tensor, bias: Tensor | None) -> Linear:
        fixed_below = self._few_rows if self._deterministic else None
        return linear.build(weight, bias, packed=self._packed, fixed_below=fixed_below)

    def _bias(self, names: tuple[str, ...]) -> Tensor | None:
        """The stacked biases, zero for a layer without one; None where no layer has any."""
        if not any(name + ".bias" in self._tensors for name in names):
            return None
        parts = [
            self.values(name + ".bias")
            if name + ".bias" in self._tensors
            else torch.zeros(self._tensors[name + ".weight"].shape[0], dtype=self._dtype, device=self.device)
            for name in names
        ]
        return torch.cat(parts)
