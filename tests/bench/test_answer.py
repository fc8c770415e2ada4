"""An exchange with a server becomes text, times, counts and, where it failed, a reason."""

import json

import pytest

from isotherm.bench.answer import read
from isotherm.bench.http import Exchange

USAGE = {
    "choices": [],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}},
}
END = {"choices": [{"delta": {}, "finish_reason": "stop"}]}


def say(**delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def exchange(*events, done=True, status=200, **rest):
    timed = [(10.0 + at, json.dumps(event).encode()) for at, event in enumerate(events, 1)]
    return Exchange(sent=10.0, ended=20.0, status=status, events=timed, done=done, **rest)


def test_a_whole_answer():
    answer = read(exchange(say(role="assistant", content=""), say(content="Hel"), say(content="lo"), END, USAGE))
    assert answer.failure is None
    assert answer.text == "Hello"
    assert answer.first_content == 2.0
    assert answer.first_reasoning is None
    assert (answer.prompt_tokens, answer.completion_tokens, answer.cached_tokens) == (7, 2, 3)
    assert answer.finish_reason == "stop"
    assert answer.elapsed == 10.0


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_under_both_names(name):
    answer = read(exchange(say(**{name: "hm "}), say(content="yes"), END, USAGE))
    assert (answer.first_reasoning, answer.first_content) == (1.0, 2.0)
    assert answer.text == "hm yes"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (exchange(say(content="a"), USAGE), "cut"),
        (exchange(say(content="a"), END, USAGE, done=False), "cut"),
        (exchange(say(content="a"), END), "no usage"),
        (exchange(say(content="a"), {"error": {"message": "engine died"}}), "engine died"),
        (exchange(body=b"{}"), "did not stream"),
        (exchange(status=429, body=b'{"error": {"message": "queue is full"}}'), "HTTP 429: queue is full"),
        (exchange(status=502, body=b"<html>bad gateway"), "HTTP 502: <html>bad gateway"),
        (exchange(status=500), "(empty)"),
        (exchange(say(content=["no", "text"]), END, USAGE), "not what OpenAI streams carry"),
        (exchange(say(content="a"), error="no end after 5 s"), "no end after 5 s"),
    ],
)
def test_what_went_wrong_is_said(made, said):
    assert said in read(made).failure
