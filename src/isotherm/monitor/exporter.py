"""Turns an engine's Stats into series, read at the moment of a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from isotherm.base.stats import Stats
from isotherm.monitor.registry import PREFIX, Metric


@dataclass(frozen=True, slots=True)
class EngineMetric:
    """A row of the table that is read from Stats."""

    metric: Metric
    read: Callable[[Stats], float]


def _gauge(name: str, meaning: str, read: Callable[[Stats], float]) -> EngineMetric:
    return EngineMetric(Metric(name, "gauge", meaning), read)


def _counter(name: str, meaning: str, read: Callable[[Stats], float]) -> EngineMetric:
    return EngineMetric(Metric(name, "counter", meaning), read)


ENGINE_METRICS = (
    _gauge("engine_running_sequences", "Sequences that are computed now.", lambda s: s.running),
    _gauge("engine_waiting_sequences", "Sequences that wait for room.", lambda s: s.waiting),
    _gauge("kv_blocks", "Blocks of the KV cache.", lambda s: s.blocks_total),
    _gauge(
        "kv_blocks_active",
        "Blocks in use by sequences; above 0 with none running is a leak.",
        lambda s: s.blocks_active,
    ),
    _gauge("kv_blocks_cached", "Blocks that only the prefix cache holds; free on demand.", lambda s: s.blocks_cached),
    _gauge("kv_blocks_free", "Blocks that hold nothing.", lambda s: s.blocks_total - s.blocks_active - s.blocks_cached),
    _gauge("kv_block_tokens", "Tokens that a block holds.", lambda s: s.block_size),
    _gauge("engine_memory_bytes", "Resident memory of the engine process.", lambda s: s.memory_bytes),
    _counter("engine_prompt_tokens_total", "Prompt tokens of admitted sequences.", lambda s: s.prompt_tokens_total),
    _counter("engine_cached_tokens_total", "Those of them found in the prefix cache.", lambda s: s.cached_tokens_total),
    _counter("engine_generated_tokens_total", "Tokens sampled.", lambda s: s.generated_tokens_total),
    _counter(
        "engine_replayed_tokens_total", "Tokens computed again after preemption.", lambda s: s.replayed_tokens_total
    ),
    _counter("engine_finished_sequences_total", "Sequences that ended by themselves.", lambda s: s.finished_total),
    _counter("engine_aborted_sequences_total", "Sequences ended by client or server.", lambda s: s.aborted_total),
    _counter(
        "engine_preemptions_total", "Times a sequence gave its blocks up for others.", lambda s: s.preemptions_total
    ),
    _counter("kv_evicted_blocks_total", "Cached blocks that were reused.", lambda s: s.evicted_blocks_total),
    _gauge("kv_snapshots", "States kept so that later prompts can begin there (DeepSeek-V4).", lambda s: s.snapshots),
    _gauge("kv_snapshots_most", "As many as there is room for.", lambda s: s.snapshots_most),
    _counter("kv_snapshots_taken_total", "States kept so far.", lambda s: s.snapshots_taken_total),
    _counter(
        "kv_snapshots_restored_total", "Times a prompt began at a kept state.", lambda s: s.snapshots_restored_total
    ),
    _counter("engine_steps_total", "Steps of the engine's loop.", lambda s: s.steps_total),
    _counter("engine_busy_seconds_total", "Time spent in those steps.", lambda s: s.busy_seconds_total),
)


class EngineCollector(Collector):
    """Asks for a snapshot at every scrape; asking never blocks."""

    def __init__(self, model: str, stats: Callable[[], Stats]) -> None:
        self._model = model
        self._stats = stats

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        snapshot = self._stats()
        for row in ENGINE_METRICS:
            family = CounterMetricFamily if row.metric.kind == "counter" else GaugeMetricFamily
            series = family(PREFIX + row.metric.name, row.metric.help, labels=["model"])
            series.add_metric([self._model], row.read(snapshot))
            yield series
