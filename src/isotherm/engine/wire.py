"""Messages on a stream socket: a four-byte little-endian length, then msgpack."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterator

import msgspec

from isotherm.engine.messages import Answer, Request

HEADER = struct.Struct("<I")

_encoder = msgspec.msgpack.Encoder()
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)


def pack(message: Request | Answer) -> bytes:
    """The message as it goes over the wire."""
    body = _encoder.encode(message)
    return HEADER.pack(len(body)) + body


def decode_answer(body: bytes) -> Answer:
    return _answers.decode(body)


class PeerGone(Exception):
    """The other end of the socket was closed."""


class EngineConnection:
    """The engine's end: blocking sends, and receives that need not wait."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._buffer = bytearray()

    def send(self, message: Answer) -> None:
        try:
            self._socket.sendall(pack(message))
        except (BrokenPipeError, ConnectionResetError) as error:
            raise PeerGone from error

    def receive(self, timeout: float | None) -> list[Request]:
        """What has arrived, waiting at most ``timeout`` seconds (None: for ever) if that is nothing.

        Raises PeerGone when the server's end is closed.
        """
        milliseconds = None if timeout is None else int(timeout * 1000)
        while self._poll.poll(milliseconds):
            try:
                data = self._socket.recv(1 << 20)
            except ConnectionResetError as error:
                raise PeerGone from error
            if not data:
                raise PeerGone
            self._buffer += data
            messages = list(self._complete())
            if messages:
                return messages
        return []

    def _complete(self) -> Iterator[Request]:
        start = 0
        while len(self._buffer) >= start + HEADER.size:
            (length,) = HEADER.unpack_from(self._buffer, start)
            body = start + HEADER.size
            if len(self._buffer) < body + length:
                break
            yield _requests.decode(bytes(self._buffer[body : body + length]))
            start = body + length
        del self._buffer[:start]
