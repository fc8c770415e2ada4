"""Blocks for sequences: free ones first, then the least recently used of the prefix cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from isotherm.cache.allocator import BlockAllocator
from isotherm.cache.prefix_tree import BlockKey, Node, PrefixTree


class OutOfBlocks(Exception):
    """Fewer blocks are free or evictable than were asked for; nothing was taken."""


class BlockManager:
    """Every block is in exactly one state: free, active (held by a sequence) or cached (only in the tree).

    ``max_cached`` bounds the cached ones even while others are free: as low ids are used first, it
    keeps memory that was only needed once from staying in use for good. None is no bound. ``evicted`` hears of every
    prefix that is let go.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        max_cached: int | None = None,
        evicted: Callable[[Node], None] | None = None,
    ) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.allocator = BlockAllocator(num_blocks)
        self.tree = PrefixTree(self.allocator.references, evicted)
        self.num_cached = 0
        """Blocks that only the prefix cache keeps; all of them can be evicted."""
        self.evicted_total = 0
        self._max_cached = num_blocks if max_cached is None else max_cached

    @property
    def num_available(self) -> int:
        return self.allocator.num_free + self.num_cached

    @property
    def num_active(self) -> int:
        return self.num_blocks - self.num_available

    def blocks_for(self, num_tokens: int) -> int:
        """How many blocks hold the KV of so many tokens."""
        return -(-num_tokens // self.block_size)

    def allocate(self, count: int) -> list[int]:
        """``count`` blocks held once each; raises OutOfBlocks and takes none if there are not enough."""
        if count > self.num_available:
            raise OutOfBlocks(f"{count} blocks wanted, {self.num_available} available")
        while self.allocator.num_free < count:
            self._evict()
        return [self.allocator.take() for _ in range(count)]

    def acquire_prefix(self, tokens: Sequence[int], max_blocks: int, multiple: int = 1) -> list[Node]:
        """Hold the longest cached prefix, rounded down to ``multiple`` blocks; deepest node last."""
        path = self.tree.find(tokens, self.block_size, max_blocks)
        del path[len(path) - len(path) % multiple :]
        for node in path:
            self._retain(node.block)
        return path

    def share(self, parent: Node | None, key: BlockKey, block: int) -> Node:
        """Offer a full block, held by the caller, to later prompts. ``parent`` None means the beginning.

        If another sequence got there first the caller's copy is dropped and the caller holds the
        returned node's block instead: a prefix is never kept twice, and holders of a node always
        hold its ancestors.
        """
        node = self.tree.insert(parent or self.tree.root, key, block)
        if node.block != block:
            self._retain(node.block)
            self.release([block])
        return node

    def release(self, blocks: Sequence[int]) -> None:
        """Let go of the blocks of a sequence, given in order of position."""
        for block in reversed(blocks):
            if self.allocator.release(block):
                continue
            node = self.tree.by_block.get(block)
            if node is None:
                self.allocator.free(block)
            else:
                self.num_cached += 1
                self.tree.retire(node)
        while self.num_cached > self._max_cached:
            self._evict()

    def _evict(self) -> None:
        self.allocator.free(self.tree.evict())
        self.num_cached -= 1
        self.evicted_total += 1

    def _retain(self, block: int) -> None:
        if self.allocator.retain(block) == 1:
            self.num_cached -= 1
