"""An engine's Stats as series."""

from __future__ import annotations

import dataclasses

from prometheus_client import CollectorRegistry, generate_latest

from isotherm.base.stats import Stats
from isotherm.monitor.exporter import EngineCollector


def numbered() -> Stats:
    """Every field with a value of its own."""
    return Stats(**{field.name: 1000 + place for place, field in enumerate(dataclasses.fields(Stats))})


def test_every_field_of_stats_is_exported():
    registry = CollectorRegistry()
    stats = numbered()
    registry.register(EngineCollector("m", lambda: stats))
    exported = {line.rpartition(" ")[2] for line in generate_latest(registry).decode().splitlines() if line[0] != "#"}
    for field in dataclasses.fields(Stats):
        assert str(float(getattr(stats, field.name))) in exported, field.name


def test_used_and_cached_blocks_are_apart_so_that_full_is_not_leaking():
    registry = CollectorRegistry()
    snapshot = Stats(blocks_total=100, blocks_cached=97)
    registry.register(EngineCollector("m", lambda: snapshot))
    value = registry.get_sample_value
    assert value("isotherm_kv_blocks_active", {"model": "m"}) == 0
    assert value("isotherm_kv_blocks_cached", {"model": "m"}) == 97
    assert value("isotherm_kv_blocks_free", {"model": "m"}) == 3
    snapshot.blocks_active, snapshot.running = 2, 0
    assert value("isotherm_kv_blocks_active", {"model": "m"}) == 2
    assert value("isotherm_engine_running_sequences", {"model": "m"}) == 0
