"""An engine's Stats as series."""

from __future__ import annotations

import dataclasses

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from isotherm.base.stats import Stats
from isotherm.monitor.exporter import EngineCollector
from support.cases import case

NAMES = ("kv_blocks_active", "kv_blocks_cached", "kv_blocks_free", "engine_running_sequences")


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


@pytest.mark.parametrize("case", [case("244")], ids=lambda each: each["name"])
def test_used_and_cached_blocks_are_apart_so_that_full_is_not_leaking(case):
    """A full cache shows no block in use by nobody; blocks in use with nothing running would."""
    series = case["input"]["series"]
    snapshot = Stats(blocks_total=100)
    registry = CollectorRegistry()
    registry.register(EngineCollector("m", lambda: snapshot))

    def leaking():
        read = {name: registry.get_sample_value(f"isotherm_{name}", {"model": "m"}) for name in NAMES}
        assert sum(read[name] for name in NAMES[:3]) == 100
        return read["kv_blocks_active"] > 0 and read["engine_running_sequences"] == 0

    for used, active, running in zip(series["kv_used_total"], series["kv_active"], series["running"], strict=True):
        snapshot.blocks_active = round(100 * active)
        snapshot.blocks_cached = round(100 * used) - snapshot.blocks_active
        snapshot.running = running
        assert not leaking()
    snapshot.blocks_active, snapshot.blocks_cached = 2, 95
    assert leaking()
