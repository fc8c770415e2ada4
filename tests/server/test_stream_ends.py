"""How answers end when it is not the model's doing: an error event, never an invented stop."""

from __future__ import annotations

import asyncio

import pytest

from isotherm.base.errors import EngineDied
from isotherm.base.outcome import Delta, Finish, FinishReason, Usage
from support.scripted_backend import ScriptedBackend, piece
from support.serving import CHAT, HI, in_process
from support.sse import events, text_of


def breaking(last):
    def script(turn):
        yield piece(turn, "The list")
        yield piece(turn, " has three")
        if last is not None:
            yield last

    return ScriptedBackend(script)


def ended(reason):
    return Delta(finish=Finish(reason, Usage(0, 2), None, "the reason"))


BREAKS = {
    "engine died": (EngineDied("killed by signal 9"), "killed by signal 9"),
    "error": (ended(FinishReason.ERROR), "the reason"),
    "abort that we did not ask for": (ended(FinishReason.ABORT), "the reason"),
    "no end at all": (None, "without an end"),
}


@pytest.mark.parametrize(("last", "words"), BREAKS.values(), ids=BREAKS)
@pytest.mark.parametrize("n", [1, 2])
async def test_a_broken_stream_says_so(last, words, n):
    async with in_process(breaking(last)) as http:
        answer = await http.post(CHAT, json=HI | {"stream": True, "n": n})
        metrics = (await http.get("/metrics")).text
    found = events(answer.text)
    assert text_of(found) == "The list has three"
    assert words in found[-1]["error"]["message"]
    assert found[-1]["error"].keys() == {"message", "type", "param", "code"}
    assert "[DONE]" not in found
    assert not any(choice["finish_reason"] for event in found[:-1] for choice in event["choices"])
    assert 'isotherm_abnormal_ends_total{cause="engine_failure",model="m"} 1.0' in metrics


@pytest.mark.parametrize(("last", "words"), BREAKS.values(), ids=BREAKS)
async def test_a_broken_whole_answer_is_an_error(last, words):
    async with in_process(breaking(last)) as http:
        answer = await http.post(CHAT, json=HI)
    assert answer.status_code == 500
    assert words in answer.json()["error"]["message"]
    assert answer.json()["error"]["code"] == "engine_failure"


async def test_an_unforeseen_defect_inside_a_stream_is_an_error_event_with_the_request_id(caplog):
    async with in_process(breaking(ZeroDivisionError("secret detail"))) as http:
        answer = await http.post(CHAT, json=HI | {"stream": True}, headers={"x-request-id": "r1"})
    last = events(answer.text)[-1]["error"]
    assert last["code"] == "internal_error"
    assert "r1" in last["message"]
    assert "secret" not in answer.text
    assert "secret detail" in caplog.text


async def test_a_defect_before_the_stream_is_an_enveloped_500():
    class Broken(ScriptedBackend):
        async def generate(self, turn):
            raise ZeroDivisionError("secret detail")

    async with in_process(Broken()) as http:
        answer = await http.post(CHAT, json=HI | {"stream": True})
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert "secret" not in answer.text


async def test_an_engine_that_is_gone_before_the_request_is_an_enveloped_500():
    class Gone(ScriptedBackend):
        async def generate(self, turn):
            raise EngineDied("out of memory")

    async with in_process(Gone()) as http:
        answer = await http.post(CHAT, json=HI)
    assert answer.status_code == 500
    assert "out of memory" in answer.json()["error"]["message"]


@pytest.mark.parametrize("stream", [True, False])
async def test_time_runs_out(stream):
    backend = ScriptedBackend(lambda turn: [piece(turn, "slow"), asyncio.Event()])
    async with in_process(backend, request_timeout=0.1) as http:
        answer = await http.post(CHAT, json=HI | {"stream": stream})
    error = events(answer.text)[-1]["error"] if stream else answer.json()["error"]
    assert answer.status_code == (200 if stream else 504)
    assert error["code"] == "request_timeout"
    assert backend.generations[0].aborted


async def test_comments_keep_a_silent_stream_alive_and_only_a_silent_one():
    def script(turn):
        yield 0.25
        yield piece(turn, "late")
        yield ended(FinishReason.STOP)

    async with in_process(ScriptedBackend(script), keepalive=0.1) as http:
        slow = await http.post(CHAT, json=HI | {"stream": True})
    assert slow.text.startswith(": keep-alive\n\n")
    assert 1 <= slow.text.count(": keep-alive\n\n") <= 3
    assert text_of(events(slow.text)) == "late"
    async with in_process(keepalive=5) as http:
        assert ": keep-alive" not in (await http.post(CHAT, json=HI | {"stream": True})).text
