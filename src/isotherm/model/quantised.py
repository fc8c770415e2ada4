"""Weights that a GGUF file stores in groups of 32 with scales, kept in their bits.

No quant changes. Q4_K's scales are products of two numbers, which are rounded to float16 (one part in 2,000; the
weights themselves as bfloat16 would lose one in 250).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from isotherm.kernels.cpu.tiled_weight import TiledWeight, expand, fits, pack
from isotherm.model.tensors import TensorSource

BITS = {"Q4_0": 4, "Q4_1": 4, "Q8_0": 8, "Q4_K": 4}
"""Storage kinds that map onto w = d u + m with u unsigned, for every 32 inputs."""

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
    if source.kind == "Q4_K":
        return _unpack_q4_k(np.ascontiguousarray(source.raw()), outputs, inputs)
    header = 4 if source.kind == "Q4_1" else 2
    size = header + (32 if source.kind == "Q8_0" else 16)
    blocks = np.ascontiguousarray(source.raw()).reshape(outputs, inputs // 32, size)
    numbers = np.ascontiguousarray(blocks[..., :header]).view(np.float16)
    scale, body = numbers[..., 0], blocks[..., header:]
    if source.kind == "Q8_0":
        return (body ^ np.uint8(128)).reshape(outputs, inputs), scale, (scale * -128).astype(np.float16)
    quants = np.concatenate((body & np.uint8(15), body >> np.uint8(4)), axis=-1).reshape(outputs, inputs)
    return quants, scale, numbers[..., 1] if source.kind == "Q4_1" else (scale * -8).astype(np.float16)


def _unpack_q4_k(raw: NDArray[np.uint8], outputs: int, inputs: int) -> Parts:
    """Blocks of 256: d and dmin in float16, eight pairs of 6-bit numbers s and m in 12 bytes, 128 bytes of quants.

    w = d s u - dmin m. Of the pairs the first four have a byte each; the others' low bits share four bytes, their high
    bits fill up the first eight. Each 32 bytes of quants hold two groups, in low and in high halves.
    """
    blocks = raw.reshape(outputs, inputs // 256, 144)
    both = np.ascontiguousarray(blocks[..., :4]).view(np.float16).astype(np.float32)
    first, second, shared = (blocks[..., start : start + 4] for start in (4, 8, 12))
    scales = np.concatenate((first & 63, shared & 15 | first >> 6 << 4), axis=-1)
    minima = np.concatenate((second & 63, shared >> 4 | second >> 6 << 4), axis=-1)
    runs = blocks[..., 16:].reshape(outputs, -1, 4, 32)
    quants = np.stack((runs & np.uint8(15), runs >> np.uint8(4)), axis=-2).reshape(outputs, inputs)
    scale, offset = both[..., :1] * scales, -both[..., 1:] * minima
    return quants, scale.astype(np.float16).reshape(outputs, -1), offset.astype(np.float16).reshape(outputs, -1)
