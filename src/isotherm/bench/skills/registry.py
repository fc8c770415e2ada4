"""All skills by name: how an item is made, and how an answer is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from isotherm.bench.skills import calls, lists, manners, memory, objects, page, recall, sums
from isotherm.bench.skills.item import Answer, Item, Mode
from isotherm.bench.skills.source import Source, Split


@dataclass(frozen=True, slots=True)
class Skill:
    """``make(source, mode, size)`` gives an item, ``right(item, answer)`` judges; ``size`` goes from 0 to 1."""

    make: Callable[[Source, Mode, float], Item]
    right: Callable[[Item, Answer], bool]


_MODULES = (recall, lists, sums, page, objects, calls, manners, memory)
SKILLS: Mapping[str, Skill] = MappingProxyType({module.NAME: Skill(module.make, module.right) for module in _MODULES})


def right(item: Item, answer: Answer) -> bool:
    """Whether an answer means what the item's expected answer means."""
    return SKILLS[item.skill].right(item, answer)


def items(skill: str, count: int, seed: int, split: Split, mode: Mode, size: float = 1.0) -> list[Item]:
    """The same ones for the same arguments."""
    source = Source(seed, split)
    return [SKILLS[skill].make(source, mode, size) for _ in range(count)]
