"""Weights that a GGUF file stores in groups of 32 with scales, kept as they are: no value is rounded again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from isotherm.kernels.cpu.tiled_weight import TiledWeight, expand, fits, pack
from isotherm.model.tensors import TensorSource

BITS = {"Q4_0": 4, "Q4_1": 4, "Q8_0": 8}
"""Storage kinds that map without loss onto w = d u + m with u unsigned."""

__all__ = ["BITS", "expand", "keeps", "stack"]

Parts = tuple[NDArray[np.uint8], NDArray[np.float16], NDArray[np.float16]]


def keeps(sources: Sequence[TensorSource]) -> bool:
    """Whether these layers, stacked, can be kept quantised: one kind that maps, and whole tiles of outputs."""
    kinds = {source.kind for source in sources}
    outputs, inputs = sum(source.shape[0] for source in sources), sources[0].shape[1]
    return len(kinds) == 1 and kinds <= BITS.keys() and fits(outputs, inputs)


def stack(sources: Sequence[TensorSource]) -> TiledWeight:
    """Layers that read the same input as one packed weight; ``keeps(sources)`` must hold."""
    parts = [_unpack(source) for source in sources]
    quants, scale, offset = (np.concatenate(part) for part in zip(*parts, strict=True))
    return pack(quants, scale, offset, BITS[sources[0].kind])


def _unpack(source: TensorSource) -> Parts:
    """quants uint8 [N, K], scale and offset float16 [N, K/32] of a tensor."""
    outputs, inputs = source.shape
    header = 4 if source.kind == "Q4_1" else 2
    size = header + (32 if source.kind == "Q8_0" else 16)
    blocks = np.ascontiguousarray(source.raw()).reshape(outputs, inputs // 32, size)
    numbers = np.ascontiguousarray(blocks[..., :header]).view(np.float16)
    scale, body = numbers[..., 0], blocks[..., header:]
    if source.kind == "Q8_0":
        return (body ^ np.uint8(128)).reshape(outputs, inputs), scale, (scale * -128).astype(np.float16)
    quants = np.concatenate((body & np.uint8(15), body >> np.uint8(4)), axis=-1).reshape(outputs, inputs)
    return quants, scale, numbers[..., 1] if source.kind == "Q4_1" else (scale * -8).astype(np.float16)
