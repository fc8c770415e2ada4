"""The text of one answer as it grows, with every token beside its own text."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

from isotherm.engine.messages import TokenScore


class Detokenizer(Protocol):
    """Turns ids into text; ``push`` gives whole characters only, ``flush`` what never got whole."""

    def push(self, token_id: int) -> str: ...

    def flush(self) -> str: ...


class StopMatcher(Protocol):
    """Holds back text that may begin a stop string; on a match it releases what stands before it."""

    def push(self, text: str) -> tuple[str, str | None]: ...

    def flush(self) -> str: ...


class _Held(NamedTuple):
    """A token that waits until the answer was released up to character ``end``."""

    end: int
    token_id: int
    score: TokenScore | None


class TextStream:
    """Detokenises, watches for stop strings, and keeps tokens aligned with released text.

    A token is ready when all its text is released. One that ends inside a character waits with the
    next ones until the character is whole; one whose text may begin a stop string waits too.

    Args:
        stops: None when the request has no stop strings.
        stops_from: stop strings count from this many tokens on (min_tokens).
    """

    def __init__(self, detokenizer: Detokenizer, stops: StopMatcher | None, stops_from: int = 0) -> None:
        self._detokenizer = detokenizer
        self._stops = stops
        self._stops_from = stops_from
        self._pushed = 0
        self._written = 0
        self._released = 0
        self._counted = 0
        self._unfinished: list[tuple[int, TokenScore | None]] = []
        self._held: deque[_Held] = deque()
        self._text: list[str] = []
        self._token_ids: list[int] = []
        self._lengths: list[int] = []
        self._scores: list[TokenScore] = []

    def push(self, token_id: int, score: TokenScore | None = None) -> str | None:
        """Append a token; returns the stop string that it completed, if any."""
        self._pushed += 1
        text = self._detokenizer.push(token_id)
        self._unfinished.append((token_id, score))
        if not text:
            return None
        self._place(len(text))
        matched = self._release(text)
        if matched is not None:
            self._ready_up_to(self._written)
        return matched

    def push_silent(self, token_id: int, score: TokenScore | None = None) -> None:
        """Append a token that ends the answer and is not part of its text."""
        self._unfinished.append((token_id, score))

    def close(self) -> str | None:
        """The answer ends here: release everything. Returns a stop string that the rest completed."""
        rest = self._detokenizer.flush()
        self._place(len(rest))
        matched = self._release(rest)
        if matched is None and self._stops is not None:
            self._text.append(self._stops.flush())
        self._ready_up_to(self._written)
        return matched

    def take(self) -> tuple[str, list[int], list[int], list[TokenScore]]:
        """What became ready since the last call: text, token ids, characters of each in this text, scores."""
        self._counted = self._released
        taken = "".join(self._text), self._token_ids, self._lengths, self._scores
        self._text, self._token_ids, self._lengths, self._scores = [], [], [], []
        return taken

    def _place(self, length: int) -> None:
        """The unfinished tokens end with the next ``length`` characters."""
        start, self._written = self._written, self._written + length
        for token_id, score in self._unfinished[:-1]:
            self._held.append(_Held(start + min(length, 1), token_id, score))
        for token_id, score in self._unfinished[-1:]:
            self._held.append(_Held(self._written, token_id, score))
        self._unfinished.clear()

    def _release(self, text: str) -> str | None:
        matched = None
        if self._stops is not None and self._pushed >= self._stops_from:
            text, matched = self._stops.push(text)
        if text:
            self._text.append(text)
            self._released += len(text)
        self._ready_up_to(self._released)
        return matched

    def _ready_up_to(self, end: int) -> None:
        while self._held and self._held[0].end <= end:
            held = self._held.popleft()
            self._token_ids.append(held.token_id)
            end_shown = min(held.end, self._released)
            self._lengths.append(max(0, end_shown - self._counted))
            self._counted = max(self._counted, end_shown)
            if held.score is not None:
                self._scores.append(held.score)
