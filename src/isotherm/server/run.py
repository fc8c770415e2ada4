"""Runs the application on a listening socket until a signal, or until the backend is lost."""

from __future__ import annotations

import asyncio
import logging
import math
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from fastapi import FastAPI

from isotherm.server.context import Services
from isotherm.server.protocol import Protocol

log = logging.getLogger("isotherm.server")
_WATCH_SECONDS = 0.5
_FAREWELL_SECONDS = 2
"""After the cut: for the final events, before connections whose clients do not read are torn down."""


def _bound_silence(listener: socket.socket, seconds: float) -> None:
    """Lets the kernel drop a connection whose client takes nothing for that long; a polite close waits for ever."""
    if sys.platform == "linux":
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))


class Server(uvicorn.Server):
    """uvicorn with our end: the first signal drains, the second cuts what still runs, the third leaves.

    While it drains it still listens, so that a new request gets 503 with Retry-After and a probe the reason.
    ``failure`` says after ``serve`` why the server ended by itself; None when it was told to.
    """

    def __init__(self, app: FastAPI) -> None:
        self._services: Services = app.state.services
        self._signals = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self.failure: str | None = None
        super().__init__(
            uvicorn.Config(
                app,
                http=Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=math.ceil(self._services.config.drain_timeout) + 2 * _FAREWELL_SECONDS,
            )
        )

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to stop; every request has its end when this returns."""
        self._loop = asyncio.get_running_loop()
        for listener in sockets or ():
            _bound_silence(listener, self._services.config.request_timeout)
        watcher = asyncio.ensure_future(self._watch())
        try:
            await super().serve(sockets)
        finally:
            watcher.cancel()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals of the main thread, taken over from whoever had them without a gap in which one is lost.

        They stay ours when the server has ended: the caller still has to close the backend.
        """
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, self.handle_exit, number, None)
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, drain, cut, close."""
        lifecycle = self._services.lifecycle
        lifecycle.begin_drain(0 if self.failure else self._services.config.drain_timeout)
        closer = asyncio.ensure_future(self._tear_down_after_cut())
        try:
            await super().shutdown(sockets)
        finally:
            closer.cancel()

    async def _tear_down_after_cut(self) -> None:
        await self._services.lifecycle.was_cut.wait()
        await asyncio.sleep(_FAREWELL_SECONDS)
        for connection in tuple(self.server_state.connections):
            transport = connection.transport
            if transport is not None:
                transport.abort()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal."""
        self._signals += 1
        lifecycle = self._services.lifecycle
        if self._loop is None or self._signals > 2:
            self.should_exit = self.force_exit = True
        elif self._signals == 2:
            self._loop.call_soon_threadsafe(lifecycle.cut)
        else:
            log.info("stopping: %d requests in progress", lifecycle.active)
            self._loop.call_soon_threadsafe(lifecycle.begin_drain, self._services.config.drain_timeout)

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: whether to stop listening now."""
        lifecycle = self._services.lifecycle
        drained = lifecycle.draining and (not lifecycle.active or lifecycle.was_cut.is_set())
        return drained or await super().on_tick(counter)

    async def _watch(self) -> None:
        while self.failure is None:
            await asyncio.sleep(_WATCH_SECONDS)
            self.failure = self._services.backend.failure()
        log.error("stopping because the backend is lost: %s", self.failure)
        self.should_exit = True
