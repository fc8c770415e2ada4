"""A Llama checkpoint made ready to compute: fused, cast, packed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from isotherm.base.backend import Loaded, unwatched
from isotherm.kernels import dispatch
from isotherm.kernels.cpu.stack_weights import BiasedWeight, StackWeights
from isotherm.kernels.cpu.tiled_weight import pack_pairs
from isotherm.model import forms, linear, quantised, rope
from isotherm.model.communicator import Communicator
from isotherm.model.config import LlamaConfig
from isotherm.model.forms import Forms, Names
from isotherm.model.linear import Linear, TiledLinear
from isotherm.model.llama import Layer, Llama, Weights
from isotherm.model.stack import Stack
from isotherm.model.tensors import TensorSource


def load_llama(
    config: LlamaConfig,
    tensors: Mapping[str, TensorSource],
    *,
    dtype: torch.dtype,
    max_model_len: int,
    keep_quantised: bool = False,
    deterministic: bool = False,
    max_decode_rows: int = 0,
    device: torch.device | None = None,
    progress: Loaded = unwatched,
) -> Llama:
    """Build the network from tensors in Hugging Face's naming.

    ``dtype`` is that of linear layers and cache. ``keep_quantised`` keeps 4- and 8-bit weights as they are.
    ``deterministic`` makes the results of decode steps of at most ``max_decode_rows`` independent of how many rows
    they have.
    """
    device = device or torch.device("cpu")
    ops = dispatch.select(device, dtype, config.hidden_size, config.head_dim // 2, config.intermediate_size)
    layer_names = [forms.linears(f"model.layers.{index}.") for index in range(config.num_layers)]
    chosen = forms.choose(
        config, tensors, layer_names, ops, dtype, device,
        keep_quantised=keep_quantised, deterministic=deterministic, max_decode_rows=max_decode_rows,
    )  # fmt: skip
    loader = _Loader(tensors, dtype, device, chosen)
    layers, tiles, norms = [], [], []
    for index, names in enumerate(layer_names):
        prefix = f"model.layers.{index}."
        pair = loader.norm(prefix + "input_layernorm.weight"), loader.norm(prefix + "post_attention_layernorm.weight")
        if chosen.stacked:
            tiles.append([loader.tiles(each) for each in names])
            norms.append((pair[0].numpy(), pair[1].numpy()))
        if chosen.dense:
            qkv, output, gate_up, down = (loader.dense(each) for each in names)
            layers.append(Layer(pair[0], qkv, output, pair[1], gate_up, down))
        progress(index + 1, config.num_layers)
    stack = None
    if chosen.stacked:
        joined = StackWeights.join(tiles, norms, config.num_heads, config.rms_norm_eps)
        stack = Stack(joined, chosen.unit, chosen.few_rows)
    cos, sin = (table.to(device) for table in rope.tables(config, max_model_len))
    weights = Weights(
        embedding=loader.values("model.embed_tokens.weight"),
        layers=layers,
        norm=loader.norm("model.norm.weight"),
        head=loader.head("model.embed_tokens" if config.tie_word_embeddings else "lm_head"),
        cos=cos,
        sin=sin,
        stack=stack,
    )
    return Llama(config, weights, ops, dtype, Communicator())


class _Loader:
    """Reads tensors by name and turns them into layers of the chosen forms."""

    def __init__(
        self, tensors: Mapping[str, TensorSource], dtype: torch.dtype, device: torch.device, chosen: Forms
    ) -> None:
        self._tensors, self._dtype, self._device, self._forms = tensors, dtype, device, chosen

    def values(self, name: str) -> Tensor:
        """A tensor in the model's dtype."""
        return torch.from_numpy(np.array(self._tensors[name].dequantize())).to(self._device, self._dtype)

    def norm(self, name: str) -> Tensor:
        return torch.from_numpy(np.array(self._tensors[name].dequantize())).to(self._device)

    def tiles(self, names: Names) -> BiasedWeight:
        """Layers that read the same input as one tiled weight, quantised if they are kept so, else bfloat16."""
        sources, bias = self._sources(names), self._bias(names)
        kept = self._forms.keep_quantised and quantised.keeps(sources)
        weight = quantised.stack(sources) if kept else pack_pairs(self._joined(names))
        return weight, np.empty(0, np.float32) if bias is None else bias.float().numpy()

    def dense(self, names: Names) -> Linear:
        """The same as numbers of the model's dtype."""
        sources = self._sources(names)
        if self._forms.keep_quantised and quantised.keeps(sources):
            weight = quantised.expand(quantised.stack(sources), self._dtype)
        else:
            weight = self._joined(names)
        return linear.build(weight, self._bias(names), packed=self._forms.packed, fixed_below=self._forms.fixed_below)

    def head(self, name: str) -> Linear:
        """The layer that makes logits: few rows ask for them, so it needs one form only."""
        source = self._tensors[name + ".weight"]
        if self._forms.keep_quantised and quantised.keeps([source]):
            return TiledLinear(quantised.stack([source]), self._forms.unit_head, self._forms.few_rows)
        if self._forms.tiled_head:
            return TiledLinear(pack_pairs(self.values(name + ".weight")), self._forms.unit_head, self._forms.few_rows)
        return self.dense((name,))

    def _sources(self, names: Names) -> list[TensorSource]:
        return [self._tensors[name + ".weight"] for name in names]

    def _joined(self, names: Names) -> Tensor:
        return torch.cat([self.values(name + ".weight") for name in names])

    def _bias(self, names: Names) -> Tensor | None:
        """The stacked biases, zero for a layer without one; None where no layer has any."""
        if not any(name + ".bias" in self._tensors for name in names):
            return None
        parts = [
            self.values(name + ".bias")
            if name + ".bias" in self._tensors
            else torch.zeros(self._tensors[name + ".weight"].shape[0], dtype=self._dtype, device=self._device)
            for name in names
        ]
        return torch.cat(parts)
