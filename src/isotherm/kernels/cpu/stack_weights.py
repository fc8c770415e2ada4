"""The weights of all layers, joined so that one compiled call can walk through them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotherm.kernels.cpu.aligned import aligned
from isotherm.kernels.cpu.tiled_weight import TiledWeight

QKV, OUTPUT, GATE_UP, DOWN = range(4)
"""Places of a layer's linear weights in ``StackWeights.where``."""

BiasedWeight = tuple[TiledWeight, NDArray[np.float32]]
"""A weight and its bias, empty if it has none."""


@dataclass(frozen=True, slots=True)
class StackWeights:
    """``where`` int64 [layers, 4, 4]: bits, first byte of ``data``, first of ``scales``, first of ``biases`` or -1.

    Norms are float32 [layers, C]; ``inner`` is the number of inputs of the down projection.
    """

    data: NDArray[np.uint8]
    scales: NDArray[np.uint16]
    biases: NDArray[np.float32]
    where: NDArray[np.int64]
    attention_norms: NDArray[Any]
    mlp_norms: NDArray[Any]
    heads: int
    inner: int
    eps: float

    @staticmethod
    def join(
        layers: list[list[BiasedWeight]], norms: list[tuple[NDArray[Any], NDArray[Any]]], heads: int, eps: float
    ) -> StackWeights:
        """Join each layer's four weights and two norms (attention, MLP); ``layers`` is emptied on the way.

        Memory that is not yet written to is not yet taken, so only one layer is held twice.
        """
        weights = [part for layer in layers for part in layer]
        data = aligned(sum(weight.data.size for weight, _ in weights), np.uint8)
        scales = aligned(sum(weight.scales.size for weight, _ in weights), np.uint16)
        biases = aligned(sum(bias.size for _, bias in weights), np.float32)
        inner, where, ends = layers[0][DOWN][0].inputs, [], [0, 0, 0]
        weights.clear()
        for layer in layers:
            for weight, bias in layer:
                where.append((weight.bits, ends[0], ends[1], ends[2] if bias.size else -1))
                parts: tuple[NDArray[Any], ...] = (weight.data, weight.scales, bias)
                for i, (target, part) in enumerate(zip((data, scales, biases), parts, strict=True)):
                    target[ends[i] : ends[i] + part.size] = part
                    ends[i] += part.size
            layer.clear()
        attention, mlp = (np.stack(kind) for kind in zip(*norms, strict=True))
        table = np.array(where, np.int64).reshape(len(layers), 4, 4)
        return StackWeights(data, scales, biases, table, attention, mlp, heads, inner, eps)
