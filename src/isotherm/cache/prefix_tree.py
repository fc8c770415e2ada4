"""A radix tree over prompts, one block of tokens an edge: which blocks hold the KV of a known prefix."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

BlockKey = tuple[int, ...]


@dataclass(slots=True, eq=False)
class Node:
    """One cached block: its tokens, its place behind its parent, and when it was last let go."""

    key: BlockKey
    block: int
    parent: Node | None
    children: dict[BlockKey, Node] = field(default_factory=dict)
    last_used: int = 0


class PrefixTree:
    """Finds the longest cached prefix and evicts the least recently used end of a branch.

    Edges are looked up by the token tuple itself, so equal hashes of different tokens never match.
    The KV in a block depends on all tokens before it; the path from the root spells them.

    ``references`` is the allocator's list of holders (read only here). A node may be evicted when
    it has no children and nobody holds its block. Whoever holds a node's block must hold those of
    its ancestors too, so an idle node has idle descendants only and every idle node can be
    evicted in time. ``evicted`` hears of every node that goes.
    """

    def __init__(self, references: Sequence[int], evicted: Callable[[Node], None] | None = None) -> None:
        self.root = Node((), -1, None)
        self._evicted = evicted
        self.by_block: dict[int, Node] = {}
        self._references = references
        self._clock = 0
        self._idle_leaves: list[tuple[int, int]] = []
        """Heap of (last use, block); entries may be outdated, see ``_evictable``."""

    def find(self, tokens: Sequence[int], block_size: int, max_blocks: int) -> list[Node]:
        """Nodes of the longest cached prefix of ``tokens``, at most ``max_blocks`` of them."""
        path: list[Node] = []
        node = self.root
        for index in range(max_blocks):
            child = node.children.get(tuple(tokens[index * block_size : (index + 1) * block_size]))
            if child is None:
                break
            path.append(child)
            node = child
        return path

    def insert(self, parent: Node, key: BlockKey, block: int) -> Node:
        """Add ``block`` behind ``parent``, or return the node that already stands for these tokens."""
        known = parent.children.get(key)
        if known is not None:
            return known
        node = Node(key, block, parent, last_used=self._clock)
        parent.children[key] = node
        self.by_block[block] = node
        return node

    def retire(self, node: Node) -> None:
        """The last holder of ``node`` let go: from now on it may be evicted."""
        self._clock += 1
        node.last_used = self._clock
        if not node.children:
            self._offer(node)

    def evict(self) -> int:
        """Remove the least recently used idle leaf and return its block. IndexError if there is none."""
        while True:
            stamp, block = heapq.heappop(self._idle_leaves)
            if self._evictable(stamp, block):
                self._remove(self.by_block[block])
                return block

    def _remove(self, node: Node) -> None:
        if self._evicted is not None:
            self._evicted(node)
        del self.by_block[node.block]
        parent = node.parent
        assert parent is not None
        del parent.children[node.key]
        if parent is not self.root and not parent.children and not self._references[parent.block]:
            self._offer(parent)

    def _offer(self, node: Node) -> None:
        heap = self._idle_leaves
        if len(heap) > 64 + 4 * len(self.by_block):
            # Outdated entries pile up when the same prefix is used again and again without evictions.
            heap[:] = [entry for entry in heap if self._evictable(*entry)]
            heapq.heapify(heap)
        heapq.heappush(heap, (node.last_used, node.block))

    def _evictable(self, stamp: int, block: int) -> bool:
        """Whether the entry still describes an idle leaf; every retirement has a stamp of its own."""
        node = self.by_block.get(block)
        return node is not None and stamp == node.last_used and not node.children and not self._references[block]
