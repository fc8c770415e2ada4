"""Judging replies: what counts as right, starved or failed, and how sure a rate is."""

import json
import math

import pytest

from isotherm.bench.http import Exchange
from isotherm.bench.skills.ask import Reply, Sampling, body, read
from isotherm.bench.skills.item import Answer, Call, Mode
from isotherm.bench.skills.probes import PROBES
from isotherm.bench.skills.rates import rate, wilson


def completion(message, finish="stop", usage=None):
    document = {"choices": [{"message": message, "finish_reason": finish}], "usage": usage or {}}
    return Exchange(status=200, body=json.dumps(document).encode())


@pytest.mark.parametrize(("hits", "count"), [(0, 5), (3, 7), (40, 40), (1, 1000)])
def test_intervals_are_wilsons(hits, count):
    for bound in wilson(hits, count):
        # From a bound, what was seen is just 1.96 deviations away.
        assert abs(hits / count - bound) == pytest.approx(1.959964 * math.sqrt(bound * (1 - bound) / count), abs=1e-6)


def test_nothing_counted_tells_nothing():
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("name", PROBES)
def test_expected_answers_are_right_and_empty_ones_are_not(name, mode):
    items = PROBES[name].items(5, 3, mode)
    assert items == PROBES[name].items(5, 3, mode)
    assert rate(name, mode, [(item, Reply(item.expected)) for item in items]).share == 1.0
    assert rate(name, mode, [(item, Reply()) for item in items]).share == 0.0


def test_requests_say_how_to_think_and_leave_out_what_was_not_asked_for():
    item = PROBES["calls"].items(1, 0, Mode.MAX)[0]
    request = json.loads(body(item, "nano", Sampling(seed=5), 2))
    assert request["chat_template_kwargs"] == {"thinking": True, "reasoning_effort": "max"}
    assert request["tools"]
    assert request["seed"] == 7
    assert not {"temperature", "max_tokens"} & set(request)


def test_a_reply_is_taken_apart():
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    message = {"content": None, "reasoning_content": "why", "tool_calls": [call]}
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 2}}
    reply = read(completion(message, "tool_calls", usage))
    assert reply.answer == Answer("", "why", (Call("f", {"a": 1}),))
    assert (reply.prompt_tokens, reply.completion_tokens, reply.reasoning_tokens) == (9, 5, 2)


def test_starved_answers_are_those_cut_off_before_a_word():
    assert read(completion({"content": " ", "reasoning_content": "so"}, "length")).starved
    assert not read(completion({"content": "The"}, "length")).starved
    assert not read(completion({"content": ""}, "stop")).starved


@pytest.mark.parametrize(
    ("exchange", "why"),
    [
        (Exchange(error="connection lost"), "connection lost"),
        (Exchange(status=400, body=b'{"error": {"message": "no tools"}}'), "HTTP 400: no tools"),
        (Exchange(status=200, body=b"<html>"), "not a chat completion"),
        (Exchange(status=200, body=b'{"choices": []}'), "not a chat completion"),
    ],
)
def test_failures_say_why_and_count_in_no_rate(exchange, why):
    reply = read(exchange)
    assert why in reply.failure
    item = PROBES["sums"].items(1, 0, Mode.OFF)[0]
    made = rate("sums", Mode.OFF, [(item, reply), (item, Reply(item.expected))])
    assert (made.answered, made.failed, made.share) == (1, 1, 1.0)
