"""From answers to figures: latencies of one request, percentiles and rates of a level of concurrency.

Definitions, for a request of n answer tokens (by the server's usage, never by counting chunks):
TTFT = sending to the first text; reported to the first reasoning and to the first answer text apart.
E2E = sending to the end of the stream. TPOT = (E2E - TTFT) / (n - 1). ITL = gaps between events with text.
Goodput = requests a second that kept every limit given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from isotherm.bench.answer import Answer
from isotherm.bench.degenerate import CycleDetector

PERCENTS = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Sample:
    """One request that came to its end. Times in seconds; None where there is nothing to measure."""

    prompt_tokens: int
    tokens: int
    cached_tokens: int | None
    ttft_reasoning: float | None
    ttft_answer: float | None
    ttft: float | None
    tpot: float | None
    e2e: float
    gaps: tuple[float, ...]
    loop: str
    """What the answer repeated, empty unless it is degenerate."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request must keep to count as good, in seconds; None is no limit."""

    ttft: float | None = None
    tpot: float | None = None

    @property
    def given(self) -> bool:
        return self.ttft is not None or self.tpot is not None

    def kept_by(self, sample: Sample) -> bool:
        """A request with no first token keeps no TTFT limit; one token alone keeps any TPOT limit."""
        first = self.ttft is None or (sample.ttft is not None and sample.ttft <= self.ttft)
        return first and (self.tpot is None or sample.tpot is None or sample.tpot <= self.tpot)


@dataclass(frozen=True, slots=True)
class Spread:
    """A distribution in seconds; ``percentiles`` by percent, interpolated between neighbours."""

    count: int
    mean: float
    percentiles: dict[int, float]

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """None for no values."""
        if not values:
            return None
        ordered = sorted(values)
        return cls(len(ordered), fmean(ordered), {percent: percentile(ordered, percent) for percent in PERCENTS})


@dataclass(frozen=True, slots=True)
class Level:
    """Figures at one concurrency. Degenerate and failed requests are counted but measured nowhere.

    ``tokens_per_second`` is the rate of answer tokens had every request been like those that count: their
    tokens over their share of the time that all requests held a slot. Without dropped requests that is
    simply tokens over ``seconds``.
    """

    concurrency: int
    requests: int
    seconds: float
    counted: int
    degenerate: int
    failed: int
    failures: tuple[str, ...]
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None
    tokens_per_second: float | None
    requests_per_second: float | None
    goodput: float | None
    spreads: dict[str, Spread | None]
    client_cpu_seconds: float


def sample_of(answer: Answer) -> Sample:
    """Figures of a whole answer (its ``failure`` is None)."""
    tokens = answer.completion_tokens or 0
    first = answer.pieces[0][0] if answer.pieces else None
    times = [at for at, _ in answer.pieces]
    detector = CycleDetector()
    for _, piece in answer.pieces:
        detector.feed(piece)
    return Sample(
        prompt_tokens=answer.prompt_tokens or 0,
        tokens=tokens,
        cached_tokens=answer.cached_tokens,
        ttft_reasoning=answer.first_reasoning,
        ttft_answer=answer.first_content,
        ttft=first,
        tpot=(answer.elapsed - first) / (tokens - 1) if first is not None and tokens > 1 else None,
        e2e=answer.elapsed,
        gaps=tuple(later - earlier for earlier, later in pairwise(times)),
        loop=detector.unit,
    )


def level_of(
    concurrency: int, answers: Sequence[Answer], seconds: float, limits: Limits, client_cpu_seconds: float
) -> Level:
    """Figures of one level, from all answers of its ``seconds``."""
    failures = [answer.failure for answer in answers if answer.failure is not None]
    samples = [sample_of(answer) for answer in answers if answer.failure is None]
    counted = [sample for sample in samples if not sample.loop]
    cached = [sample.cached_tokens for sample in counted if sample.cached_tokens is not None]
    held = sum(answer.elapsed for answer in answers)
    share = sum(sample.e2e for sample in counted) / held if held else 0.0
    span = seconds * share
    tokens = sum(sample.tokens for sample in counted)
    good = sum(1 for sample in counted if limits.kept_by(sample))
    return Level(
        concurrency=concurrency,
        requests=len(answers),
        seconds=seconds,
        counted=len(counted),
        degenerate=len(samples) - len(counted),
        failed=len(failures),
        failures=tuple(sorted(set(failures))),
        prompt_tokens=sum(sample.prompt_tokens for sample in counted),
        completion_tokens=tokens,
        cached_tokens=sum(cached) if cached else None,
        tokens_per_second=tokens / span if span else None,
        requests_per_second=len(counted) / span if span else None,
        goodput=good / span if span and limits.given else None,
        spreads=spreads(counted),
        client_cpu_seconds=client_cpu_seconds,
    )


def spreads(samples: Sequence[Sample]) -> dict[str, Spread | None]:
    """Distributions of each latency over ``samples``, by name."""
    picks: dict[str, Callable[[Sample], float | None]] = {
        "ttft_reasoning": lambda sample: sample.ttft_reasoning,
        "ttft_answer": lambda sample: sample.ttft_answer,
        "ttft": lambda sample: sample.ttft,
        "tpot": lambda sample: sample.tpot,
        "e2e": lambda sample: sample.e2e,
    }
    result = {
        name: Spread.of([value for sample in samples if (value := pick(sample)) is not None])
        for name, pick in picks.items()
    }
    result["itl"] = Spread.of([gap for sample in samples for gap in sample.gaps])
    return result


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Value below which ``percent`` of the sorted values lie, linear between two neighbours."""
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
