"""Free, active, cached: every block is in one state whatever sequences do."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from isotherm.cache.integrity import IntegrityError, check
from isotherm.cache.manager import BlockManager, OutOfBlocks

SIZE, BLOCKS = 2, 12


def test_too_many_blocks_take_none():
    manager = BlockManager(3, SIZE)
    manager.allocate(1)
    with pytest.raises(OutOfBlocks, match="3 blocks wanted, 2 available"):
        manager.allocate(3)
    assert manager.num_available == 2


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 1), (2, 1), (3, 2)])
def test_blocks_for(tokens, blocks):
    assert BlockManager(3, SIZE).blocks_for(tokens) == blocks


def test_the_cache_may_be_bounded_below_the_pool():
    manager = BlockManager(8, SIZE, max_cached=2)
    first, second = manager.allocate(3), manager.allocate(1)
    node = None
    for index, block in enumerate(first):
        node = manager.share(node, (index, index), block)
    manager.share(None, (9, 9), second[0])
    manager.release(second)
    manager.release(first)
    assert (manager.num_cached, manager.evicted_total) == (2, 2)
    assert [node.key for node in manager.tree.find([0, 0, 1, 1, 2, 2], SIZE, 3)] == [(0, 0), (1, 1)]
    check(manager, [])


class Sequences(RuleBasedStateMachine):
    """Random sequences over an alphabet of two, so that prefixes meet all the time.

    The contents of blocks are modelled beside the manager: a prefix hit must find the tokens that it stands for.
    """

    def __init__(self):
        super().__init__()
        self.manager = BlockManager(BLOCKS, SIZE)
        self.contents = {}
        self.living = []

    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=10), multiple=st.integers(1, 2))
    def begin(self, tokens, multiple):
        path = self.manager.acquire_prefix(tokens, len(tokens) // SIZE, multiple)
        assert len(path) % multiple == 0
        for index, node in enumerate(path):
            assert self.contents[node.block] == tokens[: (index + 1) * SIZE], "another prefix's block"
        blocks = [node.block for node in path]
        try:
            fresh = self.manager.allocate(self.manager.blocks_for(len(tokens)) - len(path))
        except OutOfBlocks:
            self.manager.release(blocks)
            return
        held = {block for _, others, _, _ in self.living for block in others} | set(blocks)
        assert not held & set(fresh), "a block in use was handed out again"
        for index, block in enumerate(fresh, len(path)):
            self.contents[block] = tokens[: (index + 1) * SIZE]
        self.living.append((tokens, blocks + fresh, path[-1] if path else None, len(path)))

    @precondition(lambda self: self.living)
    @rule(which=st.integers(0, 100))
    def share(self, which):
        index = which % len(self.living)
        tokens, blocks, cursor, shared = self.living[index]
        if (shared + 1) * SIZE <= len(tokens):
            key = tuple(tokens[shared * SIZE : (shared + 1) * SIZE])
            cursor = self.manager.share(cursor, key, blocks[shared])
            blocks[shared] = cursor.block
            self.living[index] = (tokens, blocks, cursor, shared + 1)

    @precondition(lambda self: self.living)
    @rule(which=st.integers(0, 100))
    def end(self, which):
        _, blocks, _, _ = self.living.pop(which % len(self.living))
        self.manager.release(blocks)

    @invariant()
    def adds_up(self):
        check(self.manager, [blocks for _, blocks, _, _ in self.living])
        held = {block for _, blocks, _, _ in self.living for block in blocks}
        assert self.manager.num_active == len(held)

    def teardown(self):
        while self.living:
            self.end(0)
        assert self.manager.num_available == BLOCKS
        assert sorted(self.manager.allocate(BLOCKS)) == list(range(BLOCKS)), "everything cached can be evicted"


TestSequences = Sequences.TestCase
TestSequences.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def broken_managers():
    leaked = BlockManager(4, SIZE)
    leaked.allocate(1)
    yield "leak", leaked, [], "counts 1 holders but 0 sequences list it"

    double_free = BlockManager(4, SIZE)
    double_free.allocator._free.append(0)
    yield "double free", double_free, [], "free 2 times"

    held_and_free = BlockManager(4, SIZE)
    held_and_free.allocator.references[2] = 1
    yield "held and free", held_and_free, [[2]], "block 2 is free 1 times, held 1 times"

    twice = BlockManager(4, SIZE)
    yield "listed twice", twice, [twice.allocate(1) * 2], "lists a block twice"

    miscounted = BlockManager(4, SIZE)
    miscounted.num_cached = 1
    yield "cached count", miscounted, [], "1 cached blocks are counted but the tree keeps 0"

    short_key = BlockManager(4, SIZE)
    blocks = short_key.allocate(1)
    short_key.share(None, (1,), blocks[0])
    yield "short key", short_key, [blocks], "cached with 1 tokens"

    orphan = BlockManager(4, SIZE)
    blocks = orphan.allocate(1)
    orphan.share(None, (1, 2), blocks[0])
    orphan.tree.root.children.clear()
    yield "unreachable", orphan, [blocks], "reaches 0 blocks but lists 1"

    headless = BlockManager(4, SIZE)
    first, second = headless.allocate(2)
    headless.share(headless.share(None, (1, 2), first), (3, 4), second)
    headless.release([first])
    yield "child held without parent", headless, [[second]], "has 0 holders but its children 1"


@pytest.mark.parametrize(
    ("manager", "holders", "finding"), [pytest.param(*rest, id=name) for name, *rest in broken_managers()]
)
def test_integrity_check_finds(manager, holders, finding):
    with pytest.raises(IntegrityError, match=finding):
        check(manager, holders)
