"""Stop strings in a stream of text, wherever the pieces are cut."""

from __future__ import annotations

from collections.abc import Sequence


class _Pattern:
    """How much of one string the stream ends with (Knuth, Morris and Pratt 1977): O(1) a character, amortised."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.matched = 0
        self._fallback = [0]
        length = 0
        for character in text[1:]:
            while length and text[length] != character:
                length = self._fallback[length - 1]
            length += text[length] == character
            self._fallback.append(length)

    def advance(self, character: str) -> bool:
        """Whether the string ends with this character. Must not be called again after it did."""
        while self.matched and self.text[self.matched] != character:
            self.matched = self._fallback[self.matched - 1]
        self.matched += self.text[self.matched] == character
        return self.matched == len(self.text)


class StopMatcher:
    """Lets text through until a stop string is complete; the result does not depend on how it is cut.

    The stop string that is completed first wins, of those the longest. Only the longest end of the
    text that may still become a stop string is held back.

    Args:
        stops: strings that end the answer; none of them empty.
        after: stop strings count only behind the first occurrence of this text (``</think>``).
    """

    def __init__(self, stops: Sequence[str], after: str | None = None) -> None:
        self._patterns = [_Pattern(stop) for stop in stops]
        self._gate = _Pattern(after) if after else None
        self._held = ""

    def push(self, text: str) -> tuple[str, str | None]:
        """What may be shown now, and the stop string that was found: then what stood before it, and no more."""
        start = self._pass_gate(text)
        for index in range(start, len(text)):
            found = self._advance(text[index])
            if found is not None:
                seen = self._held + text[: index + 1]
                self._held = ""
                return seen[: len(seen) - len(found)], found
        pending = self._held + text
        keep = max((pattern.matched for pattern in self._patterns), default=0)
        self._held = pending[len(pending) - keep :]
        return pending[: len(pending) - keep], None

    def flush(self) -> str:
        """The end came without a stop string: what was held back."""
        held, self._held = self._held, ""
        return held

    def _pass_gate(self, text: str) -> int:
        """Index of the first character at which stop strings count."""
        if self._gate is None:
            return 0
        for index, character in enumerate(text):
            if self._gate.advance(character):
                self._gate = None
                return index + 1
        return len(text)

    def _advance(self, character: str) -> str | None:
        complete = [pattern.text for pattern in self._patterns if pattern.advance(character)]
        return max(complete, key=len, default=None)
