"""Latencies, percentiles and rates from samples whose answers are known."""

import pytest

from isotherm.bench.answer import Answer
from isotherm.bench.measures import Limits, Spread, level_of, percentile, sample_of


def answer(*, first=0.5, end=2.0, tokens=4, pieces=None, **rest):
    if pieces is None:
        step = (end - first) / (tokens - 1) if tokens > 1 else 0.0
        pieces = [(first + at * step, f"word{at} ") for at in range(tokens)]
    defaults = {"first_content": first, "prompt_tokens": 10, "completion_tokens": tokens, "finish_reason": "length"}
    return Answer(elapsed=end, pieces=pieces, **{**defaults, **rest})


def loop(**rest):
    return answer(pieces=[(0.5 + at / 100, "again and again ") for at in range(40)], tokens=40, **rest)


def test_tpot_is_the_rest_of_the_time_over_the_rest_of_the_tokens():
    sample = sample_of(answer(first=0.5, end=2.0, tokens=4))
    assert sample.ttft == 0.5
    assert sample.tpot == pytest.approx(0.5)
    assert sample.gaps == pytest.approx((0.5, 0.5, 0.5))


def test_tokens_come_from_usage_not_from_chunks():
    sample = sample_of(answer(first=1.0, end=3.0, tokens=11, pieces=[(1.0, "all at"), (3.0, " once")]))
    assert sample.tokens == 11
    assert sample.tpot == pytest.approx(0.2)


def test_first_reasoning_and_first_answer_token_are_apart():
    sample = sample_of(
        answer(pieces=[(0.2, "hm"), (0.9, "yes")], first_reasoning=0.2, first_content=0.9, end=1.0, tokens=2)
    )
    assert (sample.ttft_reasoning, sample.ttft_answer, sample.ttft) == (0.2, 0.9, 0.2)


def test_one_token_has_no_tpot_and_no_text_has_no_ttft():
    assert sample_of(answer(tokens=1)).tpot is None
    silent = sample_of(answer(pieces=[], tokens=3, first_content=None))
    assert silent.ttft is None
    assert silent.tpot is None


def test_rate_without_dropped_requests_is_tokens_over_time():
    level = level_of(2, [answer(), answer()], 2.0, Limits(), 0.1)
    assert level.tokens_per_second == pytest.approx(4.0)
    assert level.requests_per_second == pytest.approx(1.0)
    assert (level.counted, level.degenerate, level.failed) == (2, 0, 0)


def test_a_degenerate_request_is_marked_and_in_no_figure():
    fast_loop = loop(end=1.0)
    level = level_of(1, [answer(end=2.0), fast_loop], 3.0, Limits(), 0.1)
    assert (level.counted, level.degenerate) == (1, 1)
    assert level.completion_tokens == 4
    assert level.tokens_per_second == pytest.approx(4 / 2.0)
    assert level.spreads["e2e"].count == 1


def test_failures_are_named_once_and_counted():
    failed = [Answer(elapsed=0.1, failure="HTTP 429: full") for _ in range(2)]
    level = level_of(1, [answer(), *failed], 2.2, Limits(), 0.0)
    assert level.failed == 2
    assert level.failures == ("HTTP 429: full",)
    assert level.tokens_per_second == pytest.approx(4 / 2.0)


def test_nothing_that_counts_gives_no_rate():
    level = level_of(1, [loop()], 1.0, Limits(), 0.0)
    assert level.tokens_per_second is None
    assert level.spreads["tpot"] is None


@pytest.mark.parametrize(
    ("limits", "good"),
    [
        (Limits(ttft=0.6), 2),
        (Limits(ttft=0.4), 0),
        (Limits(tpot=0.4), 1),
        (Limits(ttft=0.6, tpot=0.4), 1),
    ],
)
def test_goodput_counts_requests_that_keep_every_limit(limits, good):
    answers = [answer(first=0.5, end=2.0), answer(first=0.5, end=1.1)]
    level = level_of(2, answers, 2.0, limits, 0.0)
    assert level.goodput == pytest.approx(good / 2.0)


def test_no_limits_no_goodput():
    assert level_of(1, [answer()], 2.0, Limits(), 0.0).goodput is None


def test_percentiles_interpolate():
    values = [float(number) for number in range(1, 101)]
    assert percentile(values, 50) == pytest.approx(50.5)
    assert percentile(values, 99) == pytest.approx(99.01)
    assert percentile([7.0], 99) == 7.0
    assert Spread.of([]) is None
    spread = Spread.of([3.0, 1.0, 2.0])
    assert (spread.mean, spread.percentiles[50]) == (2.0, 2.0)
