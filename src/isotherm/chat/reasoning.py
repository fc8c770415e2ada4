"""Separates a model's thinking from its answer: ``<think>...</think>``, whole or streamed.

- The first close tag ends the thinking. Later tags are text, because an answer may speak about them;
  only a close tag alone on its line, with no open tag before it in the answer, is dropped and counted:
  a model that repeats it is degenerating.
- White space around the tags is dropped, and an open tag that repeats the prompt's.
- Thinking that stops by itself without a close tag was an answer: it is given again as content. Cut by
  length, it stays thinking: half a thought must not look like an answer.
- Tags count as reasoning tokens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from isotherm.base.outcome import Channel
from isotherm.chat.think_scanner import CLOSE, OPEN, Opening, Scanner, Settled

__all__ = ["CLOSE", "OPEN", "Opening", "Part", "ReasoningSplitter", "Token", "Whole", "opening_of", "split_whole"]


class Token(NamedTuple):
    """A token of the raw text: how many of its characters it ends, and its place among the answer's tokens."""

    length: int
    place: int


@dataclass(slots=True)
class Part:
    """Consecutive text of one channel, with the places of the tokens that end in it or in what was dropped.

    ``repeated`` marks the content that a stream gets at its end when all of it had been taken for thinking.
    """

    channel: Channel
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    repeated: bool = False


class Whole(NamedTuple):
    """A finished answer. ``unterminated``: the model ended by itself inside its thinking."""

    reasoning: str
    content: str
    unterminated: bool
    stray_closes: int


def opening_of(prompt: str, template: str | None) -> Opening:
    """Read the end of a rendered prompt: does it open the thinking, close it, or leave it to the model?

    A template that removes everything up to ``</think>`` from old answers but never mentions
    ``<think>`` belongs to a model that thinks from its first token on (early DeepSeek-R1).
    """
    end = prompt.rstrip()
    if end.endswith(OPEN):
        return Opening.THINKING
    if end.endswith(CLOSE):
        return Opening.ANSWER
    thinks_unasked = template is not None and CLOSE in template and OPEN not in template
    return Opening.THINKING if thinks_unasked else Opening.UNDECIDED


class ReasoningSplitter:
    """Fed with raw text, gives parts; joined by channel they do not depend on how the text was cut.

    ``unterminated``, ``stray_closes`` and ``reasoning_tokens`` are final after ``finish``.
    """

    def __init__(self, opening: Opening) -> None:
        self.unterminated = False
        self.reasoning_tokens = 0
        self._scanner = Scanner(opening)
        self._tokens: deque[Token] = deque()
        self._left = 0
        self._reasoning: list[str] = []

    @property
    def stray_closes(self) -> int:
        """Close tags dropped from the answer: a sign of degeneration."""
        return self._scanner.stray_closes

    def push(self, text: str, tokens: Iterable[Token] = ()) -> list[Part]:
        """What can be told now. ``tokens`` end in ``text``, in order; their lengths add up to it."""
        self._add_tokens(tokens)
        return self._parts([settled for character in text for settled in self._scanner.feed(character)])

    def finish(self, *, natural: bool) -> list[Part]:
        """The rest. ``natural`` is false when the answer was cut (length, abort)."""
        parts = self._parts(self._scanner.end())
        channel = self._scanner.channel
        if self._tokens:
            parts = parts or [Part(channel)]
            self._give(parts[-1], len(self._tokens))
        thought = "".join(self._reasoning).strip()
        self.unterminated = natural and channel is Channel.REASONING and bool(thought)
        if self.unterminated:
            parts.append(Part(Channel.CONTENT, thought, repeated=True))
        return parts

    def _add_tokens(self, tokens: Iterable[Token]) -> None:
        for token in tokens:
            if not self._tokens:
                self._left = token.length
            self._tokens.append(token)

    def _parts(self, settled: list[Settled]) -> list[Part]:
        parts: list[Part] = []
        for channel, run in groupby(settled, key=attrgetter("channel")):
            part = Part(channel)
            shown = []
            for character, _, is_shown in run:
                if is_shown:
                    shown.append(character)
                self._consume_character(part)
            part.text = "".join(shown)
            parts.append(part)
        self._reasoning += [part.text for part in parts if part.channel is Channel.REASONING]
        return [part for part in parts if part.text or part.tokens]

    def _consume_character(self, part: Part) -> None:
        """One character was settled in ``part``: so are tokens without text before it, and one that ends with it."""
        while self._tokens and self._left == 0:
            self._give(part, 1)
        self._left -= 1
        if self._tokens and self._left == 0:
            self._give(part, 1)

    def _give(self, part: Part, count: int) -> None:
        for _ in range(count):
            part.tokens.append(self._tokens.popleft().place)
            self._left = self._tokens[0].length if self._tokens else 0
        if part.channel is Channel.REASONING:
            self.reasoning_tokens += count


def split_whole(text: str, opening: Opening, *, natural: bool) -> Whole:
    """Split a finished answer at once."""
    splitter = ReasoningSplitter(opening)
    parts = splitter.push(text) + splitter.finish(natural=natural)
    reasoning = "".join(part.text for part in parts if part.channel is Channel.REASONING)
    content = "".join(part.text for part in parts if part.channel is Channel.CONTENT)
    return Whole("" if splitter.unterminated else reasoning, content, splitter.unterminated, splitter.stray_closes)
