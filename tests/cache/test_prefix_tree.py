"""The prefix tree finds by tokens, not by hash, and evicts the least recently used idle end."""

import time

from isotherm.cache.manager import BlockManager
from isotherm.cache.prefix_tree import PrefixTree

SIZE = 2


def store(manager, tokens):
    """A sequence that computes its full blocks, shares them, and ends."""
    path = manager.acquire_prefix(tokens, len(tokens) // SIZE)
    blocks = [node.block for node in path] + manager.allocate(len(tokens) // SIZE - len(path))
    cursor = path[-1] if path else None
    for index in range(len(path), len(blocks)):
        cursor = manager.share(cursor, tuple(tokens[index * SIZE : (index + 1) * SIZE]), blocks[index])
        blocks[index] = cursor.block
    manager.release(blocks)


def hit(manager, tokens):
    path = manager.acquire_prefix(tokens, len(tokens) // SIZE)
    manager.release([node.block for node in path])
    return len(path) * SIZE


def test_longest_prefix_is_found():
    manager = BlockManager(16, SIZE)
    store(manager, [1, 2, 3, 4, 5, 6])
    assert hit(manager, [1, 2, 3, 4, 5, 6, 7, 8]) == 6
    assert hit(manager, [1, 2, 3, 4, 9, 9]) == 4
    assert hit(manager, [3, 4]) == 0, "the same tokens at another place are another prefix"
    assert hit(manager, [1]) == 0


class Colliding(int):
    """Tokens that all have the same hash."""

    def __hash__(self):
        return 7


def test_equal_hashes_do_not_match():
    manager = BlockManager(16, SIZE)
    store(manager, [Colliding(1), Colliding(2)])
    assert hash((Colliding(1), Colliding(2))) == hash((Colliding(2), Colliding(1)))
    assert hit(manager, [Colliding(2), Colliding(1)]) == 0
    assert hit(manager, [Colliding(1), Colliding(2)]) == 2


def test_least_recently_used_end_is_evicted_first():
    manager = BlockManager(4, SIZE)
    store(manager, [1, 1, 2, 2])
    store(manager, [3, 3, 4, 4])
    assert hit(manager, [1, 1, 2, 2]) == 4
    manager.release(manager.allocate(1))
    assert hit(manager, [3, 3, 4, 4]) == 2, "the end of the older branch had to go"
    assert hit(manager, [1, 1, 2, 2]) == 4
    manager.release(manager.allocate(3))
    assert (hit(manager, [1, 1]), hit(manager, [3, 3])) == (2, 0)
    assert manager.evicted_total == 3


def test_what_is_held_is_never_evicted():
    manager = BlockManager(3, SIZE)
    store(manager, [1, 1, 2, 2])
    held = [node.block for node in manager.acquire_prefix([1, 1], 1)]
    assert manager.num_available == 2
    taken = manager.allocate(2)
    assert not set(taken) & set(held)
    manager.release(held)
    assert hit(manager, [1, 1, 2, 2]) == 2


def test_second_copy_is_dropped():
    manager = BlockManager(8, SIZE)
    first, second = manager.allocate(2)
    node = manager.share(None, (1, 2), first)
    again = manager.share(None, (1, 2), second)
    assert again is node
    assert manager.allocator.references[first] == 2
    assert second in manager.allocator.free_ids()


def test_rounding_to_a_multiple():
    manager = BlockManager(16, SIZE)
    store(manager, list(range(14)))
    path = manager.acquire_prefix(list(range(14)), 7, multiple=3)
    assert len(path) == 6
    assert sum(manager.allocator.references) == 6, "only what is used is held"


def test_queue_of_candidates_stays_small():
    manager = BlockManager(8, SIZE)
    store(manager, [1, 1, 2, 2])
    for _ in range(5_000):
        hit(manager, [1, 1, 2, 2])
    assert len(manager.tree._idle_leaves) < 100


def test_eviction_does_not_scan():
    """Evicting from a tree of 20,000 leaves costs microseconds, not a pass over the leaves."""
    manager = BlockManager(20_000, SIZE)
    for index in range(20_000):
        store(manager, [index, index])
    started = time.perf_counter()
    manager.allocate(5_000)
    assert time.perf_counter() - started < 1.0


def test_empty_tree():
    assert PrefixTree([0]).find([1, 2, 3], SIZE, 1) == []
