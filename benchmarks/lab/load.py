"""One level of load on a running server, by the same client as ``isotherm bench serve``."""

from __future__ import annotations

import asyncio

from isotherm.bench.http import Endpoint
from isotherm.bench.measures import Level
from isotherm.bench.session import Plan, measure
from isotherm.bench.workloads import PromptLength, Workload
from lab.servers import Server

TEMPERATURE = 0.8
"""Hot enough that a small model rarely runs in a circle, the same for every engine."""

DECODE_PROMPT = PromptLength(48, 80)
NEW_TOKENS = 128


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
        raise SystemExit(f"{found.failed} requests failed ({found.failures[0]}): {server.command.shown()}")
    return found


def tokens_per_second(server: Server, concurrency: int, *, seed: int, requests: int) -> float:
    """Answer tokens a second of ``requests`` requests of 128 new tokens each."""
    return level(server, concurrency, seed=seed, requests=requests).tokens_per_second or 0.0


def prefill_tokens_per_second(server: Server, *, seed: int, requests: int, tokens: int = 1500) -> float:
    """Prompt tokens computed a second: those not found in a prefix cache, over the time to the one answer token."""
    found = level(server, 1, seed=seed, requests=requests, max_tokens=1, prompt=PromptLength(tokens, tokens))
    spread = found.spreads["e2e"]
    if spread is None:
        return 0.0
    return (found.prompt_tokens - (found.cached_tokens or 0)) / (spread.mean * spread.count)
