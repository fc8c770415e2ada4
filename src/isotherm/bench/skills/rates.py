"""How often a probe's answers were right, with an interval, and how many tokens its thinking took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, mean

from isotherm.bench.skills.ask import Reply
from isotherm.bench.skills.item import Item, Mode
from isotherm.bench.skills.registry import right

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Rate:
    """Of one probe in one mode. Failed requests are counted by themselves, in no rate.

    ``low`` and ``high`` bound the share of right answers (Wilson, 95 %). Means are None where nothing counts.
    """

    probe: str
    mode: Mode
    answered: int
    right: int
    starved: int
    failed: int
    low: float
    high: float
    prompt_tokens: float | None
    reasoning_tokens: float | None
    completion_tokens: float | None

    @property
    def share(self) -> float | None:
        return self.right / self.answered if self.answered else None


def rate(probe: str, mode: Mode, asked: Sequence[tuple[Item, Reply]]) -> Rate:
    """Judge all replies to the items of one probe in one mode."""
    whole = [(item, reply) for item, reply in asked if reply.failure is None]
    good = sum(right(item, reply.answer) for item, reply in whole)
    low, high = wilson(good, len(whole))
    return Rate(
        probe=probe,
        mode=mode,
        answered=len(whole),
        right=good,
        starved=sum(reply.starved for _, reply in whole),
        failed=len(asked) - len(whole),
        low=low,
        high=high,
        prompt_tokens=_mean([reply.prompt_tokens for _, reply in whole]),
        reasoning_tokens=_mean([reply.reasoning_tokens for _, reply in whole]),
        completion_tokens=_mean([reply.completion_tokens for _, reply in whole]),
    )


def wilson(hits: int, count: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The score interval of a share (E. B. Wilson, 1927): right also near 0 and 1; (0, 1) where nothing was counted."""
    if not count:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share, spread = hits / count, z * z / count
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * (share * (1 - share) / count + spread / count / 4) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)


def _mean(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None
