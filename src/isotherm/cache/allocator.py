"""Block ids: which are free, and how many sequences hold each of the others."""

from __future__ import annotations

import heapq


class BlockAllocator:
    """Hands out block ids, always the lowest free one.

    Low ids first keeps the touched part of the (lazily mapped) KV tensors as small as the load allows.
    A block whose last holder lets go is not free by itself: the caller either frees it or keeps
    it for the prefix cache.
    """

    def __init__(self, num_blocks: int) -> None:
        if num_blocks < 1:
            raise ValueError(f"a pool needs at least one block, got {num_blocks}")
        self.num_blocks = num_blocks
        self.references = [0] * num_blocks
        """Holders of each block; sequences only, the prefix cache does not count."""
        self._free = list(range(num_blocks))

    @property
    def num_free(self) -> int:
        return len(self._free)

    def take(self) -> int:
        """The lowest free block, now held once. IndexError if there is none."""
        block = heapq.heappop(self._free)
        self.references[block] = 1
        return block

    def retain(self, block: int) -> int:
        """One more holder; returns how many there are now."""
        self.references[block] += 1
        return self.references[block]

    def release(self, block: int) -> int:
        """One holder less; returns how many are left."""
        left = self.references[block] - 1
        if left < 0:
            raise ValueError(f"block {block} was released more often than it was taken")
        self.references[block] = left
        return left

    def free(self, block: int) -> None:
        """Back to the free ids; nobody may hold it any more."""
        if self.references[block]:
            raise ValueError(f"block {block} is still held by {self.references[block]}")
        heapq.heappush(self._free, block)

    def free_ids(self) -> list[int]:
        """A copy, for the integrity check."""
        return list(self._free)
