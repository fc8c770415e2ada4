"""Places for what a sequence keeps beside its blocks, and snapshots of them at places that later prompts may share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from isotherm.cache.prefix_tree import Node


class SlotManager:
    """Slots 0 to ``num_running`` - 1 are for running sequences, ``num_snapshots`` more for snapshots.

    A prefix can be reused only where a snapshot of the state at its end was kept. When room runs out the snapshot that
    was used least recently goes; the blocks of its prefix stay, and serve as the beginning of longer ones.

    Args:
        copy: copies everything of one slot to another.
    """

    def __init__(self, num_running: int, num_snapshots: int, copy: Callable[[int, int], None]) -> None:
        self.num_snapshots = num_snapshots
        self.taken_total = 0
        self.restored_total = 0
        self._copy = copy
        self._free = list(range(num_running - 1, -1, -1))
        self._spare = list(range(num_running + num_snapshots - 1, num_running - 1, -1))
        self._kept: OrderedDict[Node, int] = OrderedDict()
        self._passing: set[Node] = set()

    @property
    def num_kept(self) -> int:
        return len(self._kept)

    def take(self) -> int:
        """A slot for a sequence that begins to run; IndexError when all are in use."""
        return self._free.pop()

    def release(self, slot: int) -> None:
        self._free.append(slot)

    def usable(self, path: Sequence[Node]) -> int:
        """How many nodes of a cached prefix remain when it ends at a snapshot."""
        return next((count for count in range(len(path), 0, -1) if path[count - 1] in self._kept), 0)

    def restore(self, node: Node, slot: int) -> None:
        """Give a sequence the state at the end of ``node``."""
        self._passing.discard(node)
        self._kept.move_to_end(node)
        self._copy(self._kept[node], slot)
        self.restored_total += 1

    def keep(self, node: Node, slot: int, *, passing: bool = False) -> None:
        """Keep a sequence's state, which is that at the end of ``node``; see ``let_pass`` for ``passing``."""
        if not self.num_snapshots:
            return
        if node in self._kept:
            self._kept.move_to_end(node)
            self._passing.discard(node)
            return
        if not self._spare:
            self.forget(next(iter(self._kept)))
        if passing:
            self._passing.add(node)
        self._kept[node] = self._spare.pop()
        self._copy(slot, self._kept[node])
        self.taken_total += 1

    def let_pass(self, node: Node) -> None:
        """The sequence that kept ``node`` in passing has come further; it goes, unless somebody else came there."""
        if node in self._passing:
            self.forget(node)

    def forget(self, node: Node) -> None:
        """The prefix tree let ``node`` go."""
        self._passing.discard(node)
        place = self._kept.pop(node, None)
        if place is not None:
            self._spare.append(place)
