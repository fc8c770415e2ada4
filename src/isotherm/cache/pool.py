"""The KV tensors of all layers, cut into blocks."""

from __future__ import annotations

from math import prod

import torch

from isotherm.kernels.zeros import zeros

BlockShapes = tuple[tuple[int, ...], tuple[int, ...]]
"""Shapes of one block's keys and of its values; the network says them, the pool only multiplies them out."""


class KVPool:
    """Keys and values of every layer, addressed by block id and offset.

    ``keys`` and ``values`` are ``[num_layers, num_blocks, *block shape]``. They start as
    zeros, because a kernel may multiply what lies past a sequence's end by nothing, which a NaN would survive; the
    operating system maps their pages when they are first written, so a pool that is never filled costs no memory.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        block_shapes: BlockShapes,
        num_layers: int,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.keys, self.values = (
            zeros((num_layers, num_blocks, *shape), dtype, torch.device(device)) for shape in block_shapes
        )

    @staticmethod
    def bytes_per_block(block_shapes: BlockShapes, num_layers: int, dtype: torch.dtype) -> int:
        """What one block costs over all layers, keys and values together."""
        return num_layers * sum(prod(shape) for shape in block_shapes) * dtype.itemsize
