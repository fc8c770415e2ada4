"""Seeded choices that keep training and test apart: a name, a template or a pair of numbers belongs to one of them.

Which one is decided by a checksum of the text itself, so no list has to be kept, and whoever draws for the test draws
what no training item has: names put together from the same syllables, templates from the same parts, in other
combinations.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from enum import StrEnum
from itertools import product
from typing import TypeVar

T = TypeVar("T")

TEST_SHARE = 4
"""One in so many names and templates is kept for the test."""
ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "st", "tr", "sh")
VOWELS = ("a", "e", "i", "o", "u")
ENDS = ("", "", "n", "r", "l")
SYLLABLES = tuple("".join(parts) for parts in product(ONSETS, VOWELS, ENDS))


class Split(StrEnum):
    TRAIN = "train"
    TEST = "test"


def split_of(text: str) -> Split:
    """Where a name or a template belongs."""
    return Split.TEST if zlib.crc32(text.encode()) % TEST_SHARE == 0 else Split.TRAIN


class Source:
    """A stream of choices for one split; the same seed gives the same stream."""

    def __init__(self, seed: int, split: Split) -> None:
        self.random = random.Random(f"{split}-{seed}")
        self.split = split

    def number(self, low: int, high: int) -> int:
        """Both ends included."""
        return self.random.randint(low, high)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def pick(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def some(self, options: Sequence[T], count: int) -> list[T]:
        """Different ones, in a random order."""
        return self.random.sample(options, count)

    def word(self) -> str:
        """A made-up lower-case word of two syllables that belongs to the split."""
        while True:
            text = self.pick(SYLLABLES) + self.pick(SYLLABLES)
            if split_of(text) is self.split:
                return text

    def words(self, count: int) -> list[str]:
        """Different ones."""
        found: dict[str, None] = {}
        while len(found) < count:
            found[self.word()] = None
        return list(found)

    def name(self) -> str:
        return self.word().capitalize()

    def names(self, count: int) -> list[str]:
        return [word.capitalize() for word in self.words(count)]

    def template(self, *parts: Sequence[str]) -> str:
        """One of each part, joined; the whole belongs to the split. Slots are left for ``str.format``."""
        while True:
            text = "".join(self.pick(part) for part in parts)
            if split_of(text) is self.split:
                return text


def templates(split: Split, *parts: Sequence[str]) -> list[str]:
    """All that ``Source.template`` can give."""
    texts = ("".join(chosen) for chosen in product(*parts))
    return [text for text in texts if split_of(text) is split]
