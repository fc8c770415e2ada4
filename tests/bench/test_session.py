"""A whole measurement of a real HTTP server."""

import asyncio

import pytest

from isotherm.base.errors import SetupError
from isotherm.bench.http import Endpoint
from isotherm.bench.measures import Limits
from isotherm.bench.report import as_json, as_text
from isotherm.bench.session import Plan, measure
from isotherm.bench.workloads import PromptLength, Workload
from support.openai_server import Canned, serving


def plan(levels=(1, 4), **rest):
    workload = Workload(prompt_tokens=PromptLength(100, 100), max_tokens=20, temperature=0.5, ignore_eos=True)
    return Plan(levels=levels, workload=workload, **rest)


def run(canned, made, **options):
    said = []
    with serving(canned) as url:
        return asyncio.run(measure(Endpoint(url, **options), made, said.append)), said


def test_levels_are_measured_at_their_concurrency():
    canned = Canned(pause=0.002)
    report, said = run(canned, plan(requests=8, limits=Limits(ttft=1.0)))
    assert report.clean
    assert report.model == "canned"
    assert [level.concurrency for level in report.levels] == [1, 4]
    assert [level.counted for level in report.levels] == [8, 8]
    assert canned.peak == 4
    assert all(level.completion_tokens == 160 for level in report.levels)
    assert report.levels[1].tokens_per_second > report.levels[0].tokens_per_second
    assert report.levels[0].goodput == pytest.approx(report.levels[0].requests_per_second)
    assert "concurrency 4: 8 of 8 requests" in said


def test_calibration_hits_the_prompt_length_and_warm_up_is_dropped():
    canned = Canned()
    report, _ = run(canned, plan(levels=(3,), requests=6))
    level = report.levels[0]
    assert level.prompt_tokens / level.counted == pytest.approx(100, abs=1)
    assert report.warmup_requests == 3
    assert [body["max_tokens"] for body in canned.bodies] == [1, 1, *[16] * 3, *[20] * 6]
    prompts = [body["messages"][0]["content"] for body in canned.bodies]
    assert len(set(prompts)) == len(prompts)


def test_loops_are_marked():
    report, _ = run(Canned(text="the same again and again, "), plan(levels=(2,), requests=4))
    assert report.levels[0].degenerate == 4
    assert not report.clean
    assert "Degenerate answers run in a circle" in as_text(report)


def test_failures_are_findings_with_their_cause():
    report, _ = run(Canned(refuse_every=4), plan(levels=(1,), requests=8, warmup=0))
    assert report.levels[0].failed == 2
    assert not report.clean
    assert "Failed: HTTP 429: queue is full" in as_text(report)


def test_reasoning_has_its_own_column_and_figure():
    report, _ = run(Canned(pause=0.001, reasoning=5), plan(levels=(1,), requests=2))
    spreads = report.levels[0].spreads
    assert spreads["ttft_reasoning"].mean < spreads["ttft_answer"].mean
    assert "TTFT reasoning" in as_text(report)


def test_cancelled_in_the_middle_keeps_what_ended():
    async def interrupted(url):
        enough = asyncio.Event()
        task = asyncio.create_task(measure(Endpoint(url), plan(levels=(2,), requests=400), watch(enough)))
        await enough.wait()
        task.cancel()
        return await task

    def watch(enough):
        return lambda text: enough.set() if ": 4 of" in text else None

    with serving(Canned(pause=0.001)) as url:
        report = asyncio.run(interrupted(url))
    assert report.interrupted
    assert 4 <= report.levels[0].requests < 400
    assert report.levels[0].tokens_per_second > 0
    assert not report.clean
    assert "Interrupted" in as_text(report)


def test_json_has_every_level_with_its_latencies():
    report, _ = run(Canned(), plan(levels=(1,), requests=3))
    document = as_json(report)
    level = document["levels"][0]
    assert level["counted"] == 3
    assert set(level["ttft"]) == {"mean", "p50", "p90", "p99"}
    assert level["ttft_reasoning"] is None
    assert document["workload"]["prompt_tokens"] == "100"
    assert document["warmup"] == {"requests": 1, "max_tokens": 16}


def test_a_server_without_usage_cannot_be_measured():
    with pytest.raises(SetupError, match="no usage"):
        run(Canned(usage=False), plan())


def test_a_missing_key_is_named():
    with pytest.raises(SetupError, match="ISOTHERM_API_KEY"):
        run(Canned(key="k"), plan())
    report, _ = run(Canned(key="k"), plan(levels=(1,), requests=1), key="k")
    assert report.clean
