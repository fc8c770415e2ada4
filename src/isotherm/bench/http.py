"""A lean streaming HTTP/1.1 client: what the measured machine spends on measuring must be little.

On two cores the client competes with the server that it measures. A general client spends about 200
microseconds on each streamed chunk, several percent of a core at a thousand tokens a second; this one notes
when bytes came and leaves decoding for later. One connection serves one request.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from time import perf_counter
from urllib.parse import urlsplit

from isotherm.base.errors import IsothermError, SetupError
from isotherm.bench.sse import DONE, EventParser

_READ = 1 << 16
_OK = 200


class ExchangeError(IsothermError):
    """The connection or the server's HTTP failed during one request."""


@dataclass(slots=True)
class Exchange:
    """One request as it went. Times are ``perf_counter`` seconds; ``events`` are (arrival, payload).

    ``error`` says in a line why the exchange failed, None if it came to its end. ``body`` is what came
    instead of events.
    """

    sent: float = 0.0
    ended: float = 0.0
    status: int = 0
    events: list[tuple[float, bytes]] = field(default_factory=list)
    body: bytes = b""
    error: str | None = None
    done: bool = False
    """Whether ``[DONE]`` came: without it a stream was cut."""


class Endpoint:
    """Where an OpenAI-compatible server listens.

    Args:
        url: with or without scheme and ``/v1``.
        key: sent as bearer token.
        timeout: seconds for one whole exchange.
    """

    def __init__(self, url: str, key: str | None = None, timeout: float = 600.0) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SetupError(f"--url {url!r} is not an HTTP address. Write it as http://127.0.0.1:8000.")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}"
        self._host = parts.hostname
        self._secure = parts.scheme == "https"
        self._port = parts.port or (443 if self._secure else 80)
        self._path = urlsplit(self.url).path
        self._tls = ssl.create_default_context() if self._secure else None
        self._timeout = timeout
        authority = parts.netloc.rpartition("@")[2]
        self._headers = f"Host: {authority}\r\nAccept: */*\r\nConnection: close\r\n"
        if key:
            self._headers += f"Authorization: Bearer {key}\r\n"

    async def get(self, path: str) -> Exchange:
        """The whole answer to a GET, in ``body``."""
        return await self._guarded(self._head("GET", path), Exchange())

    async def post(self, path: str, body: bytes, into: Exchange | None = None) -> Exchange:
        """Post JSON and collect the answer as it streams, visible in ``into`` while it grows.

        Never raises for what the server or the network does: see ``Exchange.error``. Cancelling closes the
        connection at once, which is how a client goes away.
        """
        head = self._head("POST", path, f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n")
        return await self._guarded(head + body, Exchange() if into is None else into)

    def _head(self, method: str, path: str, more: str = "") -> bytes:
        return f"{method} {self._path}{path} HTTP/1.1\r\n{self._headers}{more}\r\n".encode()

    async def _guarded(self, request: bytes, exchange: Exchange) -> Exchange:
        exchange.sent = perf_counter()
        try:
            async with asyncio.timeout(self._timeout):
                await self._exchange(request, exchange)
        except TimeoutError:
            exchange.error = f"no end after {self._timeout:g} s"
        except (OSError, ExchangeError, asyncio.IncompleteReadError, ValueError) as problem:  # ValueError: endless line
            exchange.error = f"connection failed: {problem or type(problem).__name__}"
        finally:
            exchange.ended = perf_counter()
        return exchange

    async def _exchange(self, request: bytes, exchange: Exchange) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        try:
            writer.write(request)
            exchange.status = await _status(reader)
            headers = await _headers(reader)
            if exchange.status == _OK and headers.get("content-type", "").startswith("text/event-stream"):
                await _read_events(reader, headers, exchange)
            else:
                exchange.body = b"".join([chunk async for chunk in _Body(reader, headers)])
        finally:
            writer.close()


async def _status(reader: asyncio.StreamReader) -> int:
    line = await reader.readline()
    words = line.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise ExchangeError("the server closed the connection" if not line else "the answer is not HTTP/1.1")
    return int(words[1])


async def _headers(reader: asyncio.StreamReader) -> dict[str, str]:
    headers = {}
    while line := (await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    return headers


async def _read_events(reader: asyncio.StreamReader, headers: dict[str, str], exchange: Exchange) -> None:
    parser, events = EventParser(), exchange.events
    async for chunk in _Body(reader, headers):
        now = perf_counter()
        for payload in parser.feed(chunk):
            if payload == DONE:
                exchange.done = True
            else:
                events.append((now, payload))


class _Body:
    """The bytes of a response body, decoded from its framing, as they arrive."""

    def __init__(self, reader: asyncio.StreamReader, headers: dict[str, str]) -> None:
        self._reader = reader
        self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length")
        self._left = int(length) if length and length.isdigit() else None

    def __aiter__(self) -> _Body:
        return self

    async def __anext__(self) -> bytes:
        data = await (self._chunk() if self._chunked else self._plain())
        if not data:
            raise StopAsyncIteration
        return data

    async def _chunk(self) -> bytes:
        line = await self._reader.readline()
        try:
            size = int(line.split(b";")[0], 16)
        except ValueError:
            raise ExchangeError("the answer was cut" if not line else "the answer's framing is broken") from None
        return (await self._reader.readexactly(size + 2))[:size]

    async def _plain(self) -> bytes:
        if self._left is None:
            return await self._reader.read(_READ)
        if not self._left:
            return b""
        data = await self._reader.read(min(self._left, _READ))
        self._left -= len(data)
        if not data:
            raise ExchangeError("the answer was cut")
        return data
