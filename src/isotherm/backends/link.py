"""The server's end of the socket to the engine: messages down, answers up, and news of its death."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

from isotherm.engine.messages import Answer, Request
from isotherm.engine.wire import HEADER, decode_answer, pack


class EngineLink:
    """Sends never wait: requests are small and the engine reads them between steps."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, sock: socket.socket) -> EngineLink:
        sock.setblocking(False)
        return cls(*await asyncio.open_connection(sock=sock))

    def send(self, message: Request) -> None:
        """Queue a message; one sent to a dead engine is lost, its death is reported by ``answers``."""
        if not self._writer.is_closing():
            self._writer.write(pack(message))

    async def answers(self) -> AsyncIterator[Answer]:
        """Everything the engine says, until its end of the socket closes."""
        while True:
            try:
                (length,) = HEADER.unpack(await self._reader.readexactly(HEADER.size))
                body = await self._reader.readexactly(length)
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            yield decode_answer(body)

    def close(self) -> None:
        self._writer.close()
