"""The lean client against a real socket."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from isotherm.base.errors import SetupError
from isotherm.bench.http import Endpoint, Exchange


@asynccontextmanager
async def raw_server(*writes, hold=False):
    """A server that reads a request and then writes these bytes, a pause between; gives its URL."""
    seen = []

    async def handle(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        seen.append(head)
        for data in writes:
            writer.write(data)
            await writer.drain()
            await asyncio.sleep(0.01)
        if hold:
            await reader.read()
            seen.append(b"gone")
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", seen


async def until(holds):
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never held")


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"


async def post(url, **options):
    return await Endpoint(url, **options).post("/v1/chat/completions", b"{}")


async def test_chunked_events_split_anywhere():
    body = b"data: one\n\ndata: [DONE]\n\n"
    chunks = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(part), part) for part in (body[:4], body[4:13], body[13:]))
    everything = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    async with raw_server(*(everything[at : at + 7] for at in range(0, len(everything), 7))) as (url, _):
        exchange = await post(url)
    assert exchange.error is None
    assert [payload for _, payload in exchange.events] == [b"one"]
    assert exchange.done
    assert exchange.sent < exchange.events[0][0] <= exchange.ended


async def test_a_body_with_a_length_and_one_that_ends_with_the_connection():
    for framing in (b"Content-Length: 11\r\n\r\n", b"\r\n"):
        async with raw_server(HEAD + framing + b"data: two\n\n") as (url, _):
            exchange = await post(url)
        assert [payload for _, payload in exchange.events] == [b"two"]
        assert exchange.error is None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nda", "connection failed"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", "the answer was cut"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "framing is broken"),
        (HEAD + b"Content-Length: 90\r\n\r\ndata: x\n\n", "the answer was cut"),
        (b"SSH-2.0-OpenSSH\r\n", "not HTTP"),
        (b"", "closed the connection"),
        (b"x" * 200_000, "connection failed"),
    ],
)
async def test_broken_answers_are_errors_not_exceptions(data, said):
    async with raw_server(data) as (url, _):
        exchange = await post(url)
    assert said in exchange.error


async def test_a_refusal_keeps_its_body_and_status():
    refusal = b"HTTP/1.1 429 Too Many\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    async with raw_server(refusal) as (url, _):
        exchange = await post(url)
    assert (exchange.status, exchange.body, exchange.error) == (429, b"{}", None)


async def test_time_runs_out():
    async with raw_server(HEAD + b"\r\n", hold=True) as (url, _):
        exchange = await post(url, timeout=0.1)
    assert exchange.error == "no end after 0.1 s"


async def test_cancelling_hangs_up_and_keeps_what_came():
    exchange = Exchange()
    async with raw_server(HEAD + b"\r\ndata: one\n\n", hold=True) as (url, seen):
        task = asyncio.create_task(Endpoint(url).post("/x", b"{}", exchange))
        await until(lambda: exchange.events)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: b"gone" in seen)
    assert exchange.ended > 0


async def test_nobody_listens():
    exchange = await post("http://127.0.0.1:1")
    assert "connection failed" in exchange.error


async def test_key_host_and_prefix_are_sent():
    async with raw_server(HEAD + b"\r\n") as (url, seen):
        await Endpoint(url + "/proxy/v1/", key="secret").post("/v1/chat/completions", b"{}")
    assert seen[0].startswith(b"POST /proxy/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"Authorization: Bearer secret\r\n" in seen[0]
    assert b"Content-Length: 2\r\n" in seen[0]


@pytest.mark.parametrize("url", ["localhost:80/v1", "http://localhost:80", "http://localhost:80/v1/"])
def test_one_endpoint_by_many_names(url):
    assert Endpoint(url).url == "http://localhost:80"


def test_what_is_no_address_is_refused():
    with pytest.raises(SetupError, match="not an HTTP address"):
        Endpoint("ftp://x")
