"""Does an answer run in a circle? Finds exact cycles while the text streams.

A language model that repeats itself is fast and kind to caches, so a run that does so must not count. This
finds exact repetition only: a loop with a counter in it, or near copies, are the guard's business.

Cost in pure Python: while a cycle is held, one ``endswith`` a piece; otherwise one ``rfind`` over the last
2,032 characters.
"""

from __future__ import annotations

KEY = 32
"""Characters that must recur before a period is believed: shorter keys lock onto parts of tables."""

LONGEST_PERIOD = 1999
REPEATS = 2
"""Times that the unit must be repeated after its first appearance."""

LEAST_REPEATED = 96
"""Repeated characters below which even many repeats are innocent (a ruler of dashes, an indented line)."""


class CycleDetector:
    """Fed an answer piece by piece; ``degenerate`` becomes true at the first long cycle and stays so."""

    def __init__(self) -> None:
        self.degenerate = False
        self.unit = ""
        """What repeated, when degenerate."""
        self._text = ""
        self._period = 0
        self._repeated = 0

    def feed(self, piece: str) -> bool:
        """Take the next characters of the answer; gives ``degenerate``."""
        if not piece:
            return self.degenerate
        before, self._text = len(self._text), self._text + piece
        if self._period and self._continues(before):
            self._repeated += len(piece)
        else:
            self._period = self._search()
            self._repeated = self._reach(self._period) if self._period else 0
        if self._repeated >= max(REPEATS * self._period, LEAST_REPEATED) and not self.degenerate:
            self.degenerate = True
            self.unit = self._text[-self._period :]
        return self.degenerate

    def _continues(self, before: int) -> bool:
        """Whether everything from ``before`` on equals the text one period earlier."""
        return self._text.endswith(self._text[before - self._period : len(self._text) - self._period])

    def _search(self) -> int:
        """Distance to the last earlier occurrence of the final characters; 0 when there is none."""
        end = len(self._text)
        if end <= KEY:
            return 0
        start = max(0, end - LONGEST_PERIOD - KEY)
        found = self._text.rfind(self._text[-KEY:], start, end - 1)
        return end - KEY - found if found >= 0 else 0

    def _reach(self, period: int) -> int:
        """How many final characters equal those one period earlier."""
        text, end = self._text, len(self._text)
        low, high = KEY, min(2 * KEY, end - period)
        while high > low and text[end - high :] == text[end - high - period : end - period]:
            low, high = high, min(2 * high, end - period)
        while high - low > 1:
            middle = (low + high) // 2
            if text[end - middle : end - low] == text[end - middle - period : end - low - period]:
                low = middle
            else:
                high = middle
        return low


def degenerate(text: str) -> bool:
    """Whether a whole answer contains a cycle that a stream of short pieces would have shown."""
    detector = CycleDetector()
    return any(detector.feed(text[at : at + KEY // 2]) for at in range(0, len(text), KEY // 2))
