"""The table of metrics and the registry made of it."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from isotherm.monitor.exporter import ENGINE_METRICS
from isotherm.monitor.registry import METRICS, PREFIX, Metrics

TABLE = (*METRICS, *(row.metric for row in ENGINE_METRICS))


@pytest.mark.parametrize("metric", TABLE, ids=lambda metric: metric.name)
def test_rows_follow_prometheus_manners(metric):
    assert re.fullmatch(r"[a-z][a-z_]+", metric.name)
    assert metric.help.endswith(".")
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert bool(metric.buckets) == (metric.kind == "histogram")
    assert list(metric.buckets) == sorted(metric.buckets)
    assert not {"id", "request_id", "prompt", "user", "path"} & set(metric.labels)


def test_names_are_unique():
    assert len({metric.name for metric in TABLE}) == len(TABLE)


def test_two_servers_in_one_process_do_not_share_series():
    one, two = Metrics("a"), Metrics("b")
    one.count("warnings_total", 3)
    assert b'model="a"' in one.expose()
    assert b'model="a"' not in two.expose()


def test_exposed_text_parses_and_carries_the_model():
    metrics = Metrics("org/model")
    metrics.count("http_requests_total", route="/x", status="200")
    metrics.observe("request_seconds", 0.3, route="/x")
    metrics.gauge("ready").set(1)
    families = {family.name: family for family in text_string_to_metric_families(metrics.expose().decode())}
    assert families[f"{PREFIX}http_requests"].samples[0].labels == {
        "model": "org/model",
        "route": "/x",
        "status": "200",
    }
    assert any(sample.name.endswith("_bucket") for sample in families[f"{PREFIX}request_seconds"].samples)


def test_a_name_that_is_not_in_the_table_is_a_mistake():
    with pytest.raises(KeyError):
        Metrics("m").count("surprise_total")
