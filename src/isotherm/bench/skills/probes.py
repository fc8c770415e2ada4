"""What is asked of a server to learn what its model can do: each probe a stream of new items of one kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from isotherm.bench.skills.item import Item, Mode
from isotherm.bench.skills.registry import SKILLS
from isotherm.bench.skills.source import Source, Split

WHOLE = 1.0


@dataclass(frozen=True, slots=True)
class Probe:
    """Items of ``skill`` with this ``size`` that ``fits`` accepts; ``says`` is a line for people."""

    skill: str
    says: str
    size: float = WHOLE
    fits: Callable[[Item], bool] = lambda item: True

    def items(self, count: int, seed: int, mode: Mode) -> list[Item]:
        """New to a model that was trained on the training split; the same ones for the same arguments."""
        source, make = Source(seed, Split.TEST), SKILLS[self.skill].make
        found: list[Item] = []
        while len(found) < count:
            item = make(source, mode, self.size)
            if self.fits(item):
                found.append(item)
        return found


def _denies(item: Item) -> bool:
    return bool(item.facts["denies"])


PROBES: Mapping[str, Probe] = MappingProxyType(
    {
        "recall-128": Probe("recall", "a fact in a text of about 128 tokens", 0.25),
        "recall-512": Probe("recall", "a fact in a text of about 512 tokens", 0.645),
        "recall-2048": Probe("recall", "a fact in a text of about 2,048 tokens", 0.915),
        "lists": Probe("lists", "short lists copied, turned round, sorted, counted"),
        "sums": Probe("sums", "sums and differences of two or three digits"),
        "page": Probe("page", "an HTML page whose ids and handlers fit together"),
        "json": Probe("json", "a sentence as JSON to a schema"),
        "calls": Probe("calls", "tool calls, and answers to their results", fits=lambda item: not _denies(item)),
        "no-call": Probe("calls", "no call where no offered tool fits", fits=_denies),
        "manners": Probe("manners", "an instruction of the system message"),
        "memory": Probe("memory", "what was said some turns ago"),
    }
)
