"""The KV tensors of all layers, cut into blocks."""

from __future__ import annotations

from math import prod

import torch

BlockShapes = tuple[tuple[int, ...], tuple[int, ...]]
"""Shapes of one block's keys and of its values; the network says them, the pool only multiplies them out."""


class KVPool:
    """Keys and values of every layer, addressed by block id and offset.

    ``layers[i]`` is a pair (K, V), each ``[num_blocks, *block shape]``. The tensors are not initialised: the
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
        self.layers = [
            (
                torch.empty((num_blocks, *block_shapes[0]), dtype=dtype, device=device),
                torch.empty((num_blocks, *block_shapes[1]), dtype=dtype, device=device),
            )
            for _ in range(num_layers)
        ]

    @staticmethod
    def bytes_per_block(block_shapes: BlockShapes, num_layers: int, dtype: torch.dtype) -> int:
        """What one block costs over all layers, keys and values together."""
        return num_layers * sum(prod(shape) for shape in block_shapes) * dtype.itemsize
