"""Times and counts of one generation request, handed to the metrics as they become known."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from isotherm.base.outcome import Channel, Delta, Finish, Usage
from isotherm.base.sampling import Origin, Resolved
from isotherm.monitor.registry import Metrics
from isotherm.server.usage import total, usage_object

clock = time.perf_counter


class Meter:
    """Notes deltas and ends of a request's choices. ``note`` is on the path of every token: it only compares."""

    def __init__(self, metrics: Metrics, route: str, started: float, choices: int, n: int) -> None:
        """``started`` is the clock's reading when the request arrived; ``n`` the choices of each prompt."""
        self._metrics = metrics
        self._route = route
        self._started = started
        self._n = n
        self._first: list[float | None] = [None] * choices
        self._seen: set[Channel] = set()
        self._usages: list[Usage | None] = [None] * choices

    def note(self, index: int, delta: Delta) -> None:
        """One delta of a choice."""
        if self._first[index] is None and delta.token_ids:
            self._first[index] = clock()
        if (delta.text or delta.calls) and delta.channel not in self._seen:
            self._seen.add(delta.channel)
            waited = clock() - self._started
            self._metrics.observe("time_to_first_token_seconds", waited, route=self._route, channel=delta.channel.value)

    def finish(self, index: int, finish: Finish) -> None:
        """The end of a choice."""
        usage = self._usages[index] = finish.usage
        metrics = self._metrics
        metrics.count("finished_choices_total", reason=finish.reason.value)
        if finish.unterminated or finish.starved:
            metrics.count("reasoning_ends_total", end="unterminated" if finish.unterminated else "starved")
        if finish.queue_seconds is not None:
            metrics.observe("queue_seconds", finish.queue_seconds)
        first = self._first[index]
        if first is not None and usage.completion_tokens > 1:
            per_token = (clock() - first) / (usage.completion_tokens - 1)
            metrics.observe("time_per_output_token_seconds", per_token, route=self._route)

    @property
    def finished(self) -> int:
        """Choices that have ended."""
        return sum(usage is not None for usage in self._usages)

    def usage(self) -> dict[str, Any]:
        """Token counts of the whole request, all choices ended; counts them in the metrics too."""
        sums = total([usage for usage in self._usages if usage is not None], self._n)
        metrics = self._metrics
        metrics.count("prompt_tokens_total", sums.prompt_tokens)
        metrics.count("cached_prompt_tokens_total", sums.cached_tokens)
        metrics.count("generated_tokens_total", sums.completion_tokens)
        metrics.count("reasoning_tokens_total", sums.reasoning_tokens)
        metrics.observe("request_prompt_tokens", sums.prompt_tokens)
        metrics.observe("request_generated_tokens", sums.completion_tokens)
        metrics.observe("request_seconds", clock() - self._started, route=self._route)
        return usage_object(sums)


def count_policy(metrics: Metrics, values: dict[str, Resolved], greedy: bool, warnings: Sequence[object]) -> None:
    """Counts who decided the temperature, whether sampling is greedy, and warnings given."""
    origin: Origin = values["temperature"].origin
    metrics.count("temperature_origin_total", origin=origin.value, greedy=str(greedy).lower())
    if warnings:
        metrics.count("warnings_total", len(warnings))
