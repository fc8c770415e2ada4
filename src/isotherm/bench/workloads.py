"""Prompts to measure with: synthetic, seeded, of different kinds and lengths, no two beginning alike.

The texts are made of a small vocabulary, so that nothing is downloaded and every machine sends the same
bytes. A unique number stands first in each prompt: otherwise a prefix cache would answer for the model.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NOUNS = (
    *("river", "harbour", "engine", "letter", "garden", "winter", "teacher", "market", "bridge", "island", "copper"),
    *("library", "village", "orchestra", "mountain", "captain", "window", "station", "journey", "forest", "kitchen"),
    *("lantern", "machine", "neighbour", "paper", "question", "road", "shadow", "traveller", "valley"),
)
VERBS = (
    *("carries", "follows", "repairs", "watches", "builds", "remembers", "crosses", "measures", "describes", "opens"),
    *("paints", "sells", "finds", "keeps"),
)
ADJECTIVES = (
    *("quiet", "old", "narrow", "bright", "heavy", "distant", "careful", "northern", "broken", "golden", "simple"),
    *("early", "crowded", "strange"),
)
PLACES = ("near the sea", "behind the hill", "before sunrise", "after the rain", "in the old town", "far from the road")

TASKS: Mapping[str, str] = {
    "question": "Read the notes below. What do they say about the {noun}, and why does it matter?",
    "story": "Write a story about a {adjective} {noun}. Begin from these notes.",
    "summary": "Summarise the following text in your own words for a {adjective} reader.",
    "letter": "Write a letter to a {noun} maker who asked about the text below.",
    "list": "List the facts of this text, then explain each of them in two sentences.",
    "code": "Write a Python program with comments that stores the facts below and answers questions about the {noun}.",
}
"""What the model is asked to do, by kind; kinds take turns."""


@dataclass(frozen=True, slots=True)
class PromptLength:
    """Prompt tokens wanted, from ``low`` to ``high`` inclusive, drawn evenly."""

    low: int
    high: int

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class Calibration:
    """How this endpoint's tokeniser and template count: tokens of an empty prompt, tokens per word."""

    overhead: float = 45.0
    per_word: float = 1.15

    @classmethod
    def fit(cls, points: Sequence[tuple[int, int]]) -> Calibration:
        """From two prompts of (words, tokens by the endpoint's usage), the shorter first."""
        (few, low), (many, high) = points
        per_word = max((high - low) / (many - few), 0.05)
        return cls(low - few * per_word, per_word)

    def words(self, tokens: int) -> int:
        """Words that make a prompt of about ``tokens``; at least one."""
        return max(1, round((tokens - self.overhead) / self.per_word))


@dataclass(frozen=True, slots=True)
class Workload:
    """What is sent: lengths in tokens, sampling values only where given (absent ones stay the server's)."""

    prompt_tokens: PromptLength = PromptLength(64, 192)
    max_tokens: int = 128
    seed: int = 0
    temperature: float | None = None
    ignore_eos: bool = False

    def request(self, index: int, calibration: Calibration) -> dict[str, Any]:
        """Body fields of request ``index``, without the model; the same for the same seed and index."""
        draw = random.Random(f"{self.seed}/{index}/length")
        wanted = draw.randint(self.prompt_tokens.low, self.prompt_tokens.high)
        text = prompt(self.seed, index, calibration.words(wanted))
        body: dict[str, Any] = {"messages": [{"role": "user", "content": text}], "max_tokens": self.max_tokens}
        body["seed"] = self.seed * 1_000_003 + index
        if self.temperature is not None:
            body["temperature"] = self.temperature
        if self.ignore_eos:
            body["ignore_eos"] = True
        return body


def kind_of(index: int) -> str:
    """Kind of the request ``index``."""
    return list(TASKS)[index % len(TASKS)]


def prompt(seed: int, index: int, words: int) -> str:
    """A prompt of about ``words`` words: a number of its own, a task, then as much text as there is room for."""
    draw = random.Random(f"{seed}/{index}/text")
    task = TASKS[kind_of(index)].format(noun=draw.choice(NOUNS), adjective=draw.choice(ADJECTIVES))
    lead = f"{draw.randrange(10_000, 100_000)}. {task}".split()[:words]
    return " ".join(lead + passage(draw, words - len(lead)))


def passage(draw: random.Random, words: int) -> list[str]:
    """Exactly ``words`` words of sentences that mean little and tokenise like English."""
    result: list[str] = []
    while len(result) < words:
        result += _sentence(draw).split()
    return result[: max(0, words)]


def _sentence(draw: random.Random) -> str:
    first, second = draw.sample(NOUNS, 2)
    adjective, verb, place = draw.choice(ADJECTIVES), draw.choice(VERBS), draw.choice(PLACES)
    return f"The {adjective} {first} {verb} {draw.randrange(2, 90)} of the {second}s {place}."
