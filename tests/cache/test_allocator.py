"""Block ids: lowest first, counted, never handed out twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.cache.allocator import BlockAllocator


def test_lowest_free_block_comes_first():
    allocator = BlockAllocator(5)
    assert [allocator.take() for _ in range(4)] == [0, 1, 2, 3]
    for block in (2, 0):
        allocator.release(block)
        allocator.free(block)
    assert [allocator.take(), allocator.take(), allocator.take()] == [0, 2, 4]


def test_misuse_is_refused():
    allocator = BlockAllocator(1)
    block = allocator.take()
    with pytest.raises(IndexError):
        allocator.take()
    with pytest.raises(ValueError, match="still held by 1"):
        allocator.free(block)
    allocator.release(block)
    with pytest.raises(ValueError, match="more often"):
        allocator.release(block)
    with pytest.raises(ValueError, match="at least one"):
        BlockAllocator(0)


@given(st.lists(st.integers(0, 9), max_size=200))
def test_against_a_set(choices):
    """Whatever the order of takes and releases, the free ids are those a plain set would hold."""
    allocator, free, held = BlockAllocator(8), set(range(8)), []
    for choice in choices:
        if choice < 5 and free:
            block = allocator.take()
            assert block == min(free)
            free.discard(block)
            held.append(block)
        elif held:
            block = held.pop(choice % len(held))
            assert allocator.release(block) == 0
            allocator.free(block)
            free.add(block)
        assert sorted(allocator.free_ids()) == sorted(free)
        assert allocator.num_free == len(free)
