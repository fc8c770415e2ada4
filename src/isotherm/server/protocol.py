"""uvicorn's HTTP parser with bounded headers, and our envelope for what is not HTTP at all."""

from __future__ import annotations

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from isotherm.base.errors import RequestError
from isotherm.server.errors import error_object

MAX_HEAD_BYTES = 64 * 1024
"""Request line and headers together. The parser itself would collect headers without end."""

_SEPARATORS = 4
"""Bytes of a header line that are neither name nor value."""

_NOT_HTTP = RequestError(
    f"The server could not read an HTTP request here, or its headers are larger than {MAX_HEAD_BYTES} bytes.",
    code="invalid_http",
)


class HeadTooLarge(Exception):
    """Raised inside the parser, which then gives the request up."""


class Protocol(HttpToolsProtocol):
    """One connection."""

    _head = 0

    def on_message_begin(self) -> None:
        self._head = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + _SEPARATORS)
        super().on_header(name, value)

    def send_400_response(self, msg: str) -> None:
        """Answers what the parser refused, and closes."""
        body = msgspec.json.encode(error_object(_NOT_HTTP))
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > MAX_HEAD_BYTES:
            raise HeadTooLarge
