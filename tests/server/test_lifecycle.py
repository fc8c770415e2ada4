"""Stopping: no new requests, running ones finish, the rest is cut with a last word."""

from __future__ import annotations

import asyncio
import threading
import time

import httpx
import pytest

from isotherm.base.outcome import Delta, Finish, FinishReason, Usage
from support.scripted_backend import ScriptedBackend, piece, say
from support.serving import CHAT, HI, running
from support.sse import events, text_of


def held(gate):
    """Says one word, then waits for ``gate``, then ends."""

    def script(turn):
        yield piece(turn, "begun")
        yield gate
        yield piece(turn, " and done")
        yield Delta(finish=Finish(FinishReason.STOP, Usage(0, 2)))

    return ScriptedBackend(script)


class Stream(threading.Thread):
    """A client that reads a stream to its end; ``begun`` is set at the first text."""

    def __init__(self, url, **fields):
        super().__init__(daemon=True)
        self.url, self.fields = url, fields
        self.begun = threading.Event()
        self.text = ""
        self.start()

    def run(self):
        body = HI | {"stream": True} | self.fields
        with httpx.stream("POST", self.url + CHAT, json=body, timeout=20) as answer:
            self.answer = answer
            for part in answer.iter_text():
                self.text += part
                if "begun" in self.text:
                    self.begun.set()


def wait_until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def test_a_running_stream_may_finish_while_nobody_else_may_enter():
    gate = asyncio.Event()
    with running(held(gate), drain_timeout=10) as server, httpx.Client(base_url=server.url) as kept:
        assert kept.get("/health/ready").status_code == 200
        stream = Stream(server.url)
        assert stream.begun.wait(20)
        server.call(server.server._services.lifecycle.begin_drain, 10)
        wait_until(lambda: kept.get("/health/ready").status_code == 503)
        assert "shutting down" in kept.get("/health/ready").json()["reason"]
        refused = kept.post(CHAT, json=HI)
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "server_shutting_down"
        assert refused.headers["retry-after"]
        server.stop()
        server.call(gate.set)
        stream.join(20)
        assert text_of(events(stream.text)) == "begun and done"
        assert events(stream.text)[-1] == "[DONE]"
        server.thread.join(20)
        assert not server.thread.is_alive()
        with pytest.raises(httpx.ConnectError):
            httpx.get(server.url + "/health/live")


@pytest.mark.parametrize("signals", [1, 2])
def test_what_still_runs_is_cut_with_a_last_word(signals):
    """After drain_timeout, or at once when a second signal comes."""
    backend = held(asyncio.Event())
    with running(backend, drain_timeout=0.2 if signals == 1 else 60) as server:
        streams = [Stream(server.url), Stream(server.url, n=2)]
        assert all(stream.begun.wait(20) for stream in streams)
        began = time.monotonic()
        for _ in range(signals):
            server.stop()
        for stream in streams:
            stream.join(20)
            last = events(stream.text)[-1]
            assert last["error"]["code"] == "server_shutting_down"
            assert "[DONE]" not in stream.text
        server.thread.join(20)
        assert not server.thread.is_alive()
        assert time.monotonic() - began < 15
    assert [generation.aborted for generation in backend.generations] == [True] * 3


def test_a_whole_answer_is_cut_with_503():
    backend = held(asyncio.Event())
    with running(backend, drain_timeout=0.1) as server:
        answers = []
        client = threading.Thread(target=lambda: answers.append(httpx.post(server.url + CHAT, json=HI, timeout=20)))
        client.start()
        wait_until(lambda: backend.generations)
        server.stop()
        client.join(20)
    assert answers[0].status_code == 503
    assert answers[0].json()["error"]["code"] == "server_shutting_down"
    assert backend.generations[0].aborted


def test_a_lost_backend_ends_the_server_and_says_why():
    backend = ScriptedBackend(say("x"))
    with running(backend) as server:
        assert httpx.post(server.url + CHAT, json=HI).status_code == 200
        backend.broken = "the engine was killed (signal 9)"
        server.thread.join(20)
        assert not server.thread.is_alive()
        assert server.server.failure == "the engine was killed (signal 9)"


def test_a_server_that_was_told_to_stop_has_no_failure():
    with running() as server:
        assert httpx.get(server.url + "/health/ready").status_code == 200
        server.stop()
        server.thread.join(20)
        assert server.server.failure is None
