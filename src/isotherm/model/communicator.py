"""The seam for tensor and expert parallelism: how devices of one machine share a layer's work."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Communicator:
    """A group of devices that each hold a slice of every layer.

    Networks take one from the start and call it where slices meet, so that a group of more than one can be
    added without touching them. A world of one has nothing to sum.
    """

    rank: int = 0
    world_size: int = 1

    def all_reduce(self, partial: Tensor) -> Tensor:
        """The sum of every member's ``partial``; the result of a row-parallel linear layer."""
        return partial
