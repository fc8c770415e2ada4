"""Settles each character of a raw answer, in order: which channel it belongs to and whether it is shown.

One character at a time, holding back only what may still become a tag: the result cannot depend on
how the stream was cut.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from isotherm.base.outcome import Channel
from isotherm.chat.dsml_tags import MARK

OPEN, CLOSE = "<think>", "</think>"
MAX_SPACE = 16
"""White space that is held back because a tag may follow; more is let through, so that a loop shows."""
INLINE_SPACE = " \t\r"


class Opening(StrEnum):
    """In which state the prompt leaves the answer."""

    THINKING = "thinking"
    ANSWER = "answer"
    UNDECIDED = "undecided"


class Settled(NamedTuple):
    character: str
    channel: Channel
    shown: bool


class _State(StrEnum):
    START = "start"
    THINKING = "thinking"
    BEFORE_ANSWER = "before answer"
    ANSWER = "answer"


class Scanner:
    """``feed`` gives what a character settles; ``end`` settles the rest.

    ``stray_closes`` counts close tags that were dropped from the answer.
    """

    def __init__(self, opening: Opening) -> None:
        self.stray_closes = 0
        self._opening = opening
        self._state = _State.BEFORE_ANSWER if opening is Opening.ANSWER else _State.START
        self._held = ""
        self._settled: list[Settled] = []
        self._thought = False
        self._line_blank = True
        self._quoting = False
        self._calling = False
        self._tail = ""

    @property
    def channel(self) -> Channel:
        """Where text that came now would go."""
        thinking = self._state is _State.THINKING or (self._state is _State.START and self._opening is Opening.THINKING)
        return Channel.REASONING if thinking else Channel.CONTENT

    def feed(self, character: str) -> list[Settled]:
        self._held += character
        while self._held and self._step():
            pass
        return self._take()

    def end(self) -> list[Settled]:
        if self._state is _State.ANSWER and self._is_stray_close(self._held):
            self._drop_stray_close()
        while self._held:
            self._show_first()
        return self._take()

    def _take(self) -> list[Settled]:
        settled, self._settled = self._settled, []
        return settled

    def _step(self) -> bool:
        """Settle something or change state; False when what is held must wait for more."""
        if self._state is _State.START:
            return self._start()
        if self._state is _State.THINKING:
            return self._think()
        if self._state is _State.BEFORE_ANSWER:
            return self._approach_answer()
        return self._answer()

    def _start(self) -> bool:
        """An open tag may come first, also where the prompt wrote one already."""
        word = self._held.lstrip()
        if word == OPEN:
            self._hide_held(Channel.REASONING)
            self._state = _State.THINKING
            return True
        if OPEN.startswith(word) and len(self._held) - len(word) <= MAX_SPACE:
            return False
        self._state = _State.THINKING if self._opening is Opening.THINKING else _State.ANSWER
        return True

    def _think(self) -> bool:
        word = self._held.lstrip()
        if word == CLOSE:
            self._hide_held(Channel.REASONING)
            self._state = _State.BEFORE_ANSWER
            return True
        if not word and not self._thought:
            self._hide_held(Channel.REASONING)
            return False
        if CLOSE.startswith(word) and len(self._held) - len(word) <= MAX_SPACE:
            return False
        self._show_first()
        return True

    def _approach_answer(self) -> bool:
        if self._held.isspace():
            self._hide_held(Channel.CONTENT)
            return False
        self._state = _State.ANSWER
        return True

    def _answer(self) -> bool:
        """Show all but a close tag that stands alone on its line."""
        word = self._held.lstrip(INLINE_SPACE)
        if self._line_blank and not self._quoting and not self._calling:
            if self._is_stray_close(self._held.removesuffix("\n")):
                if self._held.endswith("\n"):
                    self._drop_stray_close()
                return False
            if CLOSE.startswith(word) and len(self._held) - len(word) <= MAX_SPACE:
                return False
        self._show_first()
        return True

    def _is_stray_close(self, text: str) -> bool:
        return text.strip(INLINE_SPACE) == CLOSE and len(text) <= len(CLOSE) + 2 * MAX_SPACE

    def _drop_stray_close(self) -> None:
        self.stray_closes += 1
        self._hide_held(Channel.CONTENT)

    def _hide_held(self, channel: Channel) -> None:
        self._settled += [Settled(character, channel, False) for character in self._held]
        self._held = ""

    def _show_first(self) -> None:
        character, self._held = self._held[0], self._held[1:]
        channel = self.channel
        self._settled.append(Settled(character, channel, True))
        if channel is Channel.REASONING:
            self._thought = True
        else:
            self._follow_answer(character)

    def _follow_answer(self, character: str) -> None:
        """Keep what decides about close tags: is the line blank so far, is a tag open in the text itself?

        Behind the mark of a call stand arguments, from which nothing is dropped.
        """
        self._line_blank = character == "\n" or (self._line_blank and character in INLINE_SPACE)
        self._tail = (self._tail + character)[-len(CLOSE) :]
        if self._tail.endswith(MARK):
            self._calling = True
        if self._tail.endswith(OPEN):
            self._quoting = True
        elif self._tail == CLOSE:
            self._quoting = False
