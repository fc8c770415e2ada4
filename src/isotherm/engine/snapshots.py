"""Where the state of a sequence is kept, so that later prompts can begin there; all places are ends of blocks.

A snapshot costs as much as thousands of tokens, so not every block has one: they stand where prompts may well part.
"""

from __future__ import annotations

from isotherm.cache.slots import SlotManager
from isotherm.engine.sequence import Sequence

EVERY_BLOCKS = 8
"""Blocks between the snapshots that are taken wherever nothing else calls for one."""


class Snapshots:
    """Decides for ``slots``. Prefixes are shared in multiples of ``unit`` tokens, a block or more; so is ``every``.

    Places in a prompt: its last unit's end; where the known part of it ended, for that is where it parts from others;
    and one in ``every`` tokens. In an answer the last block's end so far, which is replaced at the next one: what
    remains is the end of the turn.
    """

    def __init__(self, slots: SlotManager, unit: int, every: int) -> None:
        self.slots = slots
        self._unit, self._every = unit, every

    def next_place(self, sequence: Sequence, after: int) -> int | None:
        """The first place in a prompt behind ``after`` tokens, None when there is none.

        A prompt's very end is no place, even where it ends a block: the same prompt again may reuse all but its last
        token.
        """
        if not self.slots.num_snapshots:
            return None
        last = self._last(sequence)
        wanted = ((after // self._every + 1) * self._every, sequence.branch, last)
        return min((place for place in wanted if after < place <= last), default=None)

    def passed(self, sequence: Sequence) -> None:
        """A sequence was computed up to a block's end."""
        if sequence.cursor is None or sequence.slot is None:
            return
        at = sequence.computed
        stays = at % self._every == 0 or at in (sequence.branch, self._last(sequence))
        if not stays and at < sequence.prefill_end:
            return
        if sequence.trail is not None:
            self.slots.let_pass(sequence.trail)
        self.slots.keep(sequence.cursor, sequence.slot, passing=not stays)
        sequence.trail = None if stays else sequence.cursor

    def _last(self, sequence: Sequence) -> int:
        return (sequence.prefill_end - 1) // self._unit * self._unit
