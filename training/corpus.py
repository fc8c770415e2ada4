"""A stream of items over all skills and modes, and how long their texts are at which point of the training."""

from __future__ import annotations

from collections.abc import Iterator

from isotherm.bench.skills.item import Item, Mode
from isotherm.bench.skills.registry import SKILLS
from isotherm.bench.skills.source import Source, Split

SHARES = {"recall": 4, "lists": 4, "sums": 5, "page": 3, "json": 3, "calls": 4, "manners": 2, "memory": 3}
"""How often a skill is drawn, relative to the others."""
MODES = {Mode.OFF: 4, Mode.LOW: 2, Mode.HIGH: 3, Mode.MAX: 1}


def stream(source: Source, reach: float = 1.0) -> Iterator[Item]:
    """Endless. ``reach`` from 0 to 1 is how large an item may be; sizes are even below it."""
    while True:
        yield draw(source, reach)


def draw(source: Source, reach: float) -> Item:
    skill = source.random.choices(list(SHARES), list(SHARES.values()))[0]
    mode = source.random.choices(list(MODES), list(MODES.values()))[0]
    return SKILLS[skill].make(source, mode, reach * source.random.random())


def held_out(per_skill: int, seed: int = 0, reach: float = 1.0) -> list[Item]:
    """Items of the test split, as many of each skill, modes in turn."""
    modes = [Mode.OFF, Mode.LOW, Mode.HIGH, Mode.MAX]
    found = []
    for skill in SKILLS:
        source = Source(seed, Split.TEST)
        for index in range(per_skill):
            size = reach * (index + 0.5) / per_skill
            found.append(SKILLS[skill].make(source, modes[index % len(modes)], size))
    return found
