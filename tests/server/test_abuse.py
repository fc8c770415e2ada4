"""Clients that leave, do not read, or send without end: over real sockets."""

from __future__ import annotations

import asyncio
import json
import socket
import time

import httpx
import pytest

from isotherm.base.outcome import Delta, Finish, FinishReason, Usage
from support.scripted_backend import ScriptedBackend, piece, say
from support.serving import CHAT, HI, running
from support.sse import events, text_of


def endless(turn):
    while True:
        yield 0.005
        yield piece(turn, "more ")


def wait_until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def request(body, **headers):
    """A chat request as bytes on the wire."""
    raw = json.dumps(body).encode()
    lines = {"host": "x", "content-type": "application/json", "content-length": len(raw)} | headers
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {CHAT} HTTP/1.1\r\n{head}\r\n".encode() + raw


def send(port, body, **headers):
    """A socket on which a request was sent."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(request(body, **headers))
    return connection


@pytest.mark.parametrize("fields", [{"stream": True}, {"stream": False}, {"stream": True, "n": 3}])
def test_a_client_that_leaves_is_noticed_at_once(fields):
    backend = ScriptedBackend(endless)
    with running(backend) as server:
        connection = send(server.port, HI | fields)
        wait_until(lambda: backend.generations and backend.generations[0].given > 3)
        left = time.monotonic()
        connection.close()
        wait_until(lambda: all(generation.aborted for generation in backend.generations))
        assert time.monotonic() - left < 2
        wait_until(lambda: "client_gone" in httpx.get(server.url + "/metrics").text)
        assert server.server._services.lifecycle.active == 0


def test_a_client_that_leaves_before_the_first_token_is_noticed_too():
    backend = ScriptedBackend(lambda turn: [asyncio.Event()])
    with running(backend) as server:
        send(server.port, HI | {"stream": True}).close()
        wait_until(lambda: backend.generations and backend.generations[0].aborted)


def test_a_client_that_leaves_inside_its_body_leaves_nothing():
    with running() as server:
        connection = send(server.port, HI, **{"content-length": 5000})
        time.sleep(0.05)
        connection.close()
        wait_until(lambda: 'status="499"' in httpx.get(server.url + "/metrics").text)
        assert not server.backend.generations


def test_a_body_that_never_comes_is_given_up():
    with running(request_timeout=0.2) as server:
        connection = send(server.port, HI, **{"content-length": 5000})
        connection.settimeout(20)
        answer = b"".join(iter(lambda: connection.recv(10_000), b""))
    assert b" 408 " in answer.splitlines()[0]
    assert b"request_timeout" in answer


def test_a_client_that_does_not_read_holds_up_itself_alone():
    """Case 238. The slow stream stops being taken from the backend; three others run at full speed beside it."""
    total = 20_000

    def script(turn):
        if turn.prompt.messages[0]["content"] == "slow":
            for _ in range(total):
                yield piece(turn, "x" * 1000)
        yield from say("quick", pause=0.01)(turn)

    backend = ScriptedBackend(script)
    with running(backend, keepalive=0.02) as server:
        slow = {"messages": [{"role": "user", "content": "slow"}], "stream": True}
        lazy = send(server.port, slow)
        lazy.recv(1)
        wait_until(lambda: backend.generations[0].given > 50)
        time.sleep(0.3)
        stalled = backend.generations[0].given
        for _ in range(3):
            began = time.monotonic()
            answer = httpx.post(server.url + CHAT, json=HI | {"stream": True})
            assert text_of(events(answer.text)) == "quick"
            assert time.monotonic() - began < 10
        assert backend.generations[0].given - stalled < total // 10
        assert stalled < total
        lazy.close()
        wait_until(lambda: backend.generations[0].aborted)


def test_a_client_that_never_reads_does_not_hold_up_the_end():
    def script(turn):
        for _ in range(20_000):
            yield piece(turn, "x" * 1000)

    with running(ScriptedBackend(script), drain_timeout=0.1) as server:
        lazy = send(server.port, HI | {"stream": True})
        lazy.recv(1)
        time.sleep(0.2)
        server.stop()
        server.thread.join(20)
        assert not server.thread.is_alive()
        lazy.close()


def test_a_connection_that_takes_nothing_is_dropped_after_the_request_s_time():
    def script(turn):
        for _ in range(20_000):
            yield piece(turn, "x" * 1000)

    backend = ScriptedBackend(script)
    with running(backend, request_timeout=0.5) as server:
        lazy = send(server.port, HI | {"stream": True})
        lazy.recv(1)
        wait_until(lambda: backend.generations[0].aborted)
        wait_until(lambda: not server.server.server_state.connections, 10)
        lazy.close()


def test_many_streams_at_once():
    count = 200

    def script(turn):
        for _ in range(5):
            yield 0.02
            yield piece(turn, "t")
        yield Delta(finish=Finish(FinishReason.LENGTH, Usage(0, 5)))

    async def one(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(HI | {"stream": True}, connection="close"))
        answer = (await reader.read()).decode()
        writer.close()
        return answer

    async def everybody(port):
        return await asyncio.gather(*(one(port) for _ in range(count)))

    with running(ScriptedBackend(script)) as server:
        answers = asyncio.run(everybody(server.port))
    assert [answer.count('"content":"t"') for answer in answers] == [5] * count
    assert all(answer.endswith("data: [DONE]\n\n\r\n0\r\n\r\n") for answer in answers)


def test_ten_megabytes_over_a_socket_are_refused_and_the_connection_closes():
    with running() as server:
        answer = httpx.post(server.url + CHAT, json=HI | {"user": "x" * 10_000_000})
        assert answer.status_code == 413
        assert httpx.get(server.url + "/health/live").status_code == 200


@pytest.mark.parametrize(
    "head", ["GARBAGE\r\n\r\n", "GET / HTTP/1.1\r\n" + "x: y\r\n" * 20_000, "GET /" + "a" * 90_000]
)
def test_what_is_no_http_or_has_endless_headers_gets_our_envelope(head):
    with running() as server:
        connection = socket.create_connection(("127.0.0.1", server.port))
        connection.settimeout(20)
        connection.sendall(head.encode())
        answer = b"".join(iter(lambda: connection.recv(10_000), b""))
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "invalid_http"
        assert httpx.get(server.url + "/health/live").status_code == 200


def test_an_upgrade_to_a_web_socket_is_an_ordinary_request():
    with running() as server:
        upgrade = {
            "connection": "upgrade",
            "upgrade": "websocket",
            "sec-websocket-version": "13",
            "sec-websocket-key": "x",
        }
        assert httpx.get(server.url + "/v1/models", headers=upgrade).status_code == 200
