"""Does the book-keeping of the blocks add up? Run when the engine is idle, in debug mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from isotherm.cache.manager import BlockManager


class IntegrityError(Exception):
    """The block pool contradicts itself; the message lists every contradiction found."""


def check(manager: BlockManager, holders: Iterable[Sequence[int]]) -> None:
    """Raise IntegrityError unless every block is free, active or cached, and counted right.

    Args:
        holders: the block lists of all living sequences.
    """
    held = [list(blocks) for blocks in holders]
    findings = [*_ownership(manager, held), *_tree_shape(manager)]
    if findings:
        raise IntegrityError("block pool is inconsistent: " + "; ".join(findings))


def _ownership(manager: BlockManager, held: list[list[int]]) -> Iterator[str]:
    counts = Counter(block for blocks in held for block in blocks)
    free = Counter(manager.allocator.free_ids())
    cached = 0
    for index, blocks in enumerate(held):
        if len(set(blocks)) != len(blocks):
            yield f"sequence {index} lists a block twice: {blocks}"
    for block, references in enumerate(manager.allocator.references):
        in_tree = block in manager.tree.by_block
        cached += in_tree and not references
        if references != counts[block]:
            yield f"block {block} counts {references} holders but {counts[block]} sequences list it"
        states = (free[block] > 0) + (references > 0) + (in_tree and not references)
        if states != 1 or free[block] > 1:
            yield f"block {block} is free {free[block]} times, held {references} times, cached {in_tree}"
    if cached != manager.num_cached:
        yield f"{manager.num_cached} cached blocks are counted but the tree keeps {cached}"


def _tree_shape(manager: BlockManager) -> Iterator[str]:
    references = manager.allocator.references
    reached = 0
    stack = list(manager.tree.root.children.values())
    while stack:
        node = stack.pop()
        reached += 1
        stack.extend(node.children.values())
        if len(node.key) != manager.block_size:
            yield f"block {node.block} is cached with {len(node.key)} tokens"
        if manager.tree.by_block.get(node.block) is not node:
            yield f"block {node.block} stands twice in the tree"
        holders_below = sum(references[child.block] for child in node.children.values())
        if holders_below > references[node.block]:
            yield f"block {node.block} has {references[node.block]} holders but its children {holders_below}"
    if reached != len(manager.tree.by_block):
        yield f"the tree reaches {reached} blocks but lists {len(manager.tree.by_block)}"
