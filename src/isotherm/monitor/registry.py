"""The table of metrics: every series that a server exports, with what it means. One row, one metric.

Names get the prefix ``isotherm_`` and every series the label ``model``. Label values come from small
closed sets (routes, statuses, reasons), never from requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

PREFIX = "isotherm_"
Kind = Literal["counter", "gauge", "histogram"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0)
_TOKENS = (1.0, 8.0, 32.0, 128.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131072.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """One row: name without prefix, kind, meaning with its unit, labels beside ``model``, bucket bounds."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


METRICS = (
    Metric("http_requests_total", "counter", "Requests answered, by route and status.", ("route", "status")),
    Metric("http_requests_active", "gauge", "Requests in progress."),
    Metric(
        "time_to_first_token_seconds",
        "histogram",
        "From a request's arrival to the first piece of a channel: reasoning, content, tool_calls.",
        ("route", "channel"),
        _SECONDS,
    ),
    Metric(
        "time_per_output_token_seconds",
        "histogram",
        "Time between tokens of a choice after its first one, on average.",
        ("route",),
        _TOKEN_SECONDS,
    ),
    Metric(
        "queue_seconds",
        "histogram",
        "From handing a choice to the engine to the first step that computes some of it; known when it ends by itself.",
        (),
        _SECONDS,
    ),
    Metric("request_seconds", "histogram", "From a request's arrival to its last token.", ("route",), _SECONDS),
    Metric("request_prompt_tokens", "histogram", "Prompt tokens of a completed request.", (), _TOKENS),
    Metric("request_generated_tokens", "histogram", "Generated tokens of a completed request.", (), _TOKENS),
    Metric("prompt_tokens_total", "counter", "Prompt tokens of completed requests."),
    Metric("cached_prompt_tokens_total", "counter", "Those of them that came from the prefix cache."),
    Metric("generated_tokens_total", "counter", "Generated tokens of completed requests."),
    Metric("reasoning_tokens_total", "counter", "Those of them that were reasoning."),
    Metric("finished_choices_total", "counter", "Choices that ended by themselves, by finish reason.", ("reason",)),
    Metric("reasoning_ends_total", "counter", "Choices whose thinking never closed, or left no tokens.", ("end",)),
    Metric("abnormal_ends_total", "counter", "Answers that broke off after they began, by cause.", ("cause",)),
    Metric("refused_requests_total", "counter", "Requests refused with an error, by its code.", ("code",)),
    Metric(
        "temperature_origin_total",
        "counter",
        "Generation requests by who decided their temperature, and whether they are greedy.",
        ("origin", "greedy"),
    ),
    Metric("warnings_total", "counter", "Warnings and clamp reports given to clients."),
    Metric("ready", "gauge", "1 while new requests are welcome."),
    Metric("build_info", "gauge", "Always 1; says which version answers.", ("version",)),
)


class Metrics:
    """The table come alive, on a registry of its own, for one served model."""

    def __init__(self, model: str) -> None:
        self.registry = CollectorRegistry()
        self._model = model
        self._made = {metric.name: self._make(metric) for metric in METRICS}

    def _make(self, metric: Metric) -> Counter | Gauge | Histogram:
        name, labels = PREFIX + metric.name, ("model", *metric.labels)
        if metric.kind == "counter":
            return Counter(name, metric.help, labels, registry=self.registry)
        if metric.kind == "gauge":
            return Gauge(name, metric.help, labels, registry=self.registry)
        return Histogram(name, metric.help, labels, registry=self.registry, buckets=metric.buckets)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Adds to a counter."""
        counter = self._made[name]
        assert isinstance(counter, Counter)
        counter.labels(model=self._model, **labels).inc(amount)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Adds a value to a histogram."""
        histogram = self._made[name]
        assert isinstance(histogram, Histogram)
        histogram.labels(model=self._model, **labels).observe(value)

    def gauge(self, name: str, **labels: str) -> Gauge:
        """A gauge, to be set or counted up and down."""
        gauge = self._made[name]
        assert isinstance(gauge, Gauge)
        return gauge.labels(model=self._model, **labels)

    def expose(self) -> bytes:
        """All series in Prometheus' text format."""
        return generate_latest(self.registry)
