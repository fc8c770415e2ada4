"""A whole measurement of one endpoint: find the model, calibrate, warm up, then each level of concurrency."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from isotherm.base.errors import SetupError
from isotherm.bench.answer import read
from isotherm.bench.http import Endpoint
from isotherm.bench.load import ROUTE, Run, drive, encode
from isotherm.bench.measures import Level, Limits, level_of
from isotherm.bench.workloads import Calibration, Workload, prompt

WARMUP_TOKENS = 16
CALIBRATION_WORDS = (20, 220)

Progress = Callable[[str], None]
"""Told what is going on, in one line that replaces the one before."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure. ``requests`` a level; None sends twice the concurrency, and at least 8.

    ``warmup`` requests before each level are sent and dropped; None sends as many as the concurrency.
    """

    levels: Sequence[int]
    workload: Workload
    limits: Limits = field(default_factory=Limits)
    requests: int | None = None
    warmup: int | None = None
    model: str | None = None

    def requests_at(self, concurrency: int) -> int:
        return self.requests if self.requests is not None else max(8, 2 * concurrency)

    def warmup_at(self, concurrency: int) -> int:
        return self.warmup if self.warmup is not None else concurrency


@dataclass(slots=True)
class Report:
    """What was measured; grows level by level. ``interrupted`` means that the last level is partial."""

    url: str
    plan: Plan
    model: str = ""
    calibration: Calibration = field(default_factory=Calibration)
    warmup_requests: int = 0
    levels: list[Level] = field(default_factory=list)
    interrupted: bool = False

    @property
    def clean(self) -> bool:
        """Whether every level has figures and no request failed."""
        finished = not self.interrupted and bool(self.levels)
        return finished and all(level.counted and not level.failed for level in self.levels)


async def measure(endpoint: Endpoint, plan: Plan, progress: Progress) -> Report:
    """Run the plan. Cancelling (Ctrl-C) is not an error: the report then holds what there is.

    Raises SetupError when the endpoint cannot be measured at all.
    """
    report = Report(endpoint.url, plan)
    indices = itertools.count()
    try:
        report.model = plan.model or await first_model(endpoint)
        progress("calibrating prompt lengths")
        report.calibration = await calibrate(endpoint, report.model, plan.workload.seed)
        for concurrency in plan.levels:
            await _warm_up(endpoint, report, concurrency, indices, progress)
            await _level(endpoint, report, concurrency, indices, progress)
    except asyncio.CancelledError:
        report.interrupted = True
    return report


async def first_model(endpoint: Endpoint) -> str:
    """Name of the first model that the endpoint lists."""
    exchange = await endpoint.get("/v1/models")
    if exchange.error is not None:
        raise SetupError(
            f"No server answers at {endpoint.url} ({exchange.error}). "
            "Start one with `isotherm serve`, or name another with --url."
        )
    if exchange.status != 200:
        raise SetupError(f"{endpoint.url}/v1/models answers HTTP {exchange.status}. {_advice(exchange.status)}")
    try:
        return str(msgspec.json.decode(exchange.body)["data"][0]["id"])
    except (msgspec.DecodeError, LookupError, TypeError):
        raise SetupError(f"{endpoint.url} answers, but lists no model. Check --url, or name one by --model.") from None


async def calibrate(endpoint: Endpoint, model: str, seed: int) -> Calibration:
    """How many tokens the endpoint counts for a prompt, from two requests of one token each."""
    points = []
    for words in CALIBRATION_WORDS:
        request = {"messages": [{"role": "user", "content": prompt(seed, -words, words)}], "max_tokens": 1}
        answer = read(await endpoint.post(ROUTE, encode(request, model)))
        if answer.failure is not None or answer.prompt_tokens is None:
            raise SetupError(f"{endpoint.url} does not answer a plain chat request: {answer.failure}. {_advice(0)}")
        points.append((words, answer.prompt_tokens))
    return Calibration.fit(points)


def _advice(status: int) -> str:
    if status in (401, 403):
        return "Put its key into ISOTHERM_API_KEY."
    return "Is it an OpenAI-compatible server? Check --url and --model."


def _bodies(report: Report, indices: Iterator[int], count: int, max_tokens: int | None = None) -> Iterator[bytes]:
    """The next ``count`` requests, made before the clock starts so that making them costs nothing."""
    workload = report.plan.workload
    requests = [workload.request(index, report.calibration) for index in itertools.islice(indices, count)]
    for request in requests:
        if max_tokens is not None:
            request["max_tokens"] = min(max_tokens, request["max_tokens"])
    return iter([encode(request, report.model) for request in requests])


async def _warm_up(
    endpoint: Endpoint, report: Report, concurrency: int, indices: Iterator[int], progress: Progress
) -> None:
    count = report.plan.warmup_at(concurrency)
    progress(f"concurrency {concurrency}: warming up with {count} requests")
    bodies = _bodies(report, indices, count, WARMUP_TOKENS)
    await drive(endpoint, bodies, concurrency, Run(), lambda run: None)
    report.warmup_requests += count


async def _level(
    endpoint: Endpoint, report: Report, concurrency: int, indices: Iterator[int], progress: Progress
) -> None:
    count = report.plan.requests_at(concurrency)
    run, bodies = Run(), _bodies(report, indices, count)

    def show(run: Run) -> None:
        progress(f"concurrency {concurrency}: {len(run.exchanges)} of {count} requests")

    try:
        await drive(endpoint, bodies, concurrency, run, show)
    finally:
        if run.exchanges:
            answers = [read(exchange) for exchange in run.exchanges]
            level = level_of(concurrency, answers, run.seconds, report.plan.limits, run.client_cpu_seconds)
            report.levels.append(level)
