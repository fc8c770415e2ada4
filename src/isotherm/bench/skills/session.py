"""All probes in all modes against one endpoint, some requests at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from isotherm.bench.http import Endpoint
from isotherm.bench.load import ROUTE
from isotherm.bench.session import first_model
from isotherm.bench.skills.ask import Reply, Sampling, body, read
from isotherm.bench.skills.item import Item, Mode
from isotherm.bench.skills.probes import PROBES
from isotherm.bench.skills.rates import Rate, rate


@dataclass(frozen=True, slots=True)
class Plan:
    """``items`` new ones of each of ``probes`` in each of ``modes``; ``seed`` draws the items."""

    probes: Sequence[str]
    modes: Sequence[Mode]
    items: int
    sampling: Sampling
    seed: int = 0
    concurrency: int = 4
    model: str | None = None


@dataclass(slots=True)
class Report:
    """Grows rate by rate; ``interrupted`` says that some are missing. ``failures`` are the different reasons."""

    url: str
    plan: Plan
    model: str = ""
    rates: list[Rate] = field(default_factory=list)
    failures: set[str] = field(default_factory=set)
    interrupted: bool = False

    @property
    def clean(self) -> bool:
        return not (self.interrupted or self.failures)


async def measure(endpoint: Endpoint, plan: Plan, progress: Callable[[str], None]) -> Report:
    """Ask and judge. Cancelling (Ctrl-C) is no error: the report then holds what there is.

    Raises SetupError where the endpoint cannot be asked at all.
    """
    report = Report(endpoint.url, plan)
    try:
        report.model = plan.model or await first_model(endpoint)
        for name in plan.probes:
            for mode in plan.modes:
                items = PROBES[name].items(plan.items, plan.seed, mode)
                asked = await _ask(endpoint, report, items, partial(_say, progress, f"{name}, thinking {mode}"))
                report.rates.append(rate(name, mode, asked))
                report.failures |= {reply.failure for _, reply in asked if reply.failure is not None}
    except asyncio.CancelledError:
        report.interrupted = True
    return report


def _say(progress: Callable[[str], None], phase: str, done: str) -> None:
    progress(f"{phase}: {done}")


async def _ask(
    endpoint: Endpoint, report: Report, items: Sequence[Item], progress: Callable[[str], None]
) -> list[tuple[Item, Reply]]:
    """All items, at most ``concurrency`` at once; replies in the items' order."""
    free = asyncio.Semaphore(report.plan.concurrency)
    done = 0

    async def one(index: int, item: Item) -> tuple[Item, Reply]:
        nonlocal done
        async with free:
            reply = read(await endpoint.post(ROUTE, body(item, report.model, report.plan.sampling, index)))
        done += 1
        progress(f"{done} of {len(items)} answered")
        return item, reply

    return await asyncio.gather(*(one(index, item) for index, item in enumerate(items)))
