"""A Llama checkpoint made ready to compute: fused, cast, packed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from isotherm.kernels import dispatch
from isotherm.model import linear, rope
from isotherm.model.communicator import Communicator
from isotherm.model.config import LlamaConfig
from isotherm.model.linear import Linear
from isotherm.model.llama import Layer, Llama, Weights
from isotherm.model.tensors import TensorSource

Progress = Callable[[int, int], None]
"""Called with layers done and layers in all."""


def load_llama(
    config: LlamaConfig,
    tensors: Mapping[str, TensorSource],
    *,
    dtype: torch.dtype,
    max_model_len: int,
    deterministic: bool = False,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> Llama:
    """Build the network from tensors in Hugging Face's naming.

    ``dtype`` is that of linear layers and cache. ``deterministic`` chooses layouts whose rows do not depend on
    how many there are.
    """
    loader = _Loader(config, tensors, dtype, deterministic, device or torch.device("cpu"))
    cos, sin = (table.to(loader.device) for table in rope.tables(config, max_model_len))
    layers = []
    for index in range(config.num_layers):
        layers.append(loader.layer(f"model.layers.{index}."))
        if progress:
            progress(index + 1, config.num_layers)
    embedding = loader.values("model.embed_tokens.weight")
    head = loader.pack(embedding if config.tie_word_embeddings else loader.values("lm_head.weight"), None)
    weights = Weights(embedding, layers, loader.norm("model.norm.weight"), head, cos, sin)
    ops = dispatch.select(loader.device, dtype, config.hidden_size, config.head_dim)
    return Llama(config, weights, ops, dtype, Communicator())


class _Loader:
    """Reads tensors by name and turns them into layers."""

    def __init__(
        self,
        config: LlamaConfig,
        tensors: Mapping[str, TensorSource],
        dtype: torch.dtype,
        deterministic: bool,
        device: torch.device,
    ) -> None:
        self.device = device
        self._config, self._tensors, self._dtype, self._deterministic = config, tensors, dtype, deterministic
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

    def pack(self, weight: Tensor, bias: Tensor | None) -> Linear:
        return linear.build(weight, bias, packed=self._packed, even_rows=self._deterministic)

    def _linear(self, *names: str) -> Linear:
        """Layers that read the same input, stacked into one."""
        weight = torch.cat([self.values(name + ".weight") for name in names])
        return self.pack(weight, self._bias(names))

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
