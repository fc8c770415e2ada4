"""One level of load on a running server, by the same client as ``isotherm bench serve``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from isotherm.bench.http import Endpoint
from isotherm.bench.measures import Level
from isotherm.bench.session import Plan, measure
from isotherm.bench.workloads import PromptLength, Workload
from lab.servers import Server

TEMPERATURE = 0.8
"""Hot enough that a small model rarely runs in a circle, the same for every engine."""

DECODE_PROMPT = PromptLength(48, 80)
NEW_TOKENS = 128


class LoadFailed(SystemExit):
    """Requests failed, so the run does not count. Ends the script where nobody measures again."""


def level(
    server: Server,
    concurrency: int,
    *,
    seed: int,
    requests: int,
    max_tokens: int = NEW_TOKENS,
    prompt: PromptLength = DECODE_PROMPT,
) -> Level:
    """Figures at one concurrency. Prompts depend on ``seed`` alone: give each repetition another one.

    Ends the program when a request fails: a comparison with holes is none.
    """
    workload = Workload(prompt, max_tokens, seed, TEMPERATURE, ignore_eos=True)
    plan = Plan([concurrency], workload, requests=requests, model=server.model)
    report = asyncio.run(measure(Endpoint(server.url), plan, lambda text: None))
    if report.interrupted:
        raise KeyboardInterrupt
    found = report.levels[0]
    if found.failed:
        raise LoadFailed(f"{found.failed} requests failed ({found.failures[0]}): {server.command.shown()}")
    return found


@dataclass(frozen=True, slots=True)
class Figure:
    """One run's rate, how many of its answers ran in a circle (and are in no rate), and the client's own cost."""

    value: float
    requests: int
    degenerate: int
    client_cpu_share: float
    """Of one core, over the run."""

    @classmethod
    def of(cls, value: float | None, found: Level) -> Figure:
        """0 when no answer counted."""
        return cls(value or 0.0, found.requests, found.degenerate, found.client_cpu_seconds / found.seconds)


def decode_rate(server: Server, concurrency: int, *, seed: int, requests: int) -> Figure:
    """Answer tokens a second of ``requests`` requests of 128 new tokens each."""
    found = level(server, concurrency, seed=seed, requests=requests)
    return Figure.of(found.tokens_per_second, found)


def prefill_rate(server: Server, *, seed: int, requests: int, tokens: int = 1500) -> Figure:
    """Prompt tokens computed a second: those not found in a prefix cache, over the time to the one answer token."""
    found = level(server, 1, seed=seed, requests=requests, max_tokens=1, prompt=PromptLength(tokens, tokens))
    spread = found.spreads["e2e"]
    computed = found.prompt_tokens - (found.cached_tokens or 0)
    return Figure.of(computed / (spread.mean * spread.count) if spread else None, found)


def remarks(figures: Sequence[Figure]) -> dict[str, float]:
    """What a result file says of the runs beside their rates."""
    return {
        "requests": sum(figure.requests for figure in figures),
        "degenerate": sum(figure.degenerate for figure in figures),
        "client_cpu_share": round(fmean(figure.client_cpu_share for figure in figures), 4),
    }
