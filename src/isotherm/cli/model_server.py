"""uvicorn with our own ending: a signal drains, a second one cuts, a dead engine stops the server with a cause."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from isotherm.base.backend import Backend
from isotherm.base.errors import EngineDied
from isotherm.server.lifecycle import Lifecycle

log = logging.getLogger("isotherm.serve")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_FAREWELL = 2.0
"""Seconds that clients get to take their last event: after the cut, and after the engine's death."""
_IDLE_CONNECTION = 75.0
"""Longer than the pools of common clients keep a connection, so that they and not we close it."""


class ModelServer(uvicorn.Server):
    """Serves ``app`` until it is told to stop or its backend fails.

    First signal: no new requests, running ones get ``drain_timeout`` seconds, then an error event.
    Second: running requests are cut now. Third: the process ends at once (the engine with it).
    """

    def __init__(self, app: FastAPI, backend: Backend, drain_timeout: float) -> None:
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=int(_IDLE_CONNECTION),
            timeout_graceful_shutdown=int(_FAREWELL),
        )
        super().__init__(config)
        self._backend = backend
        self._lifecycle: Lifecycle = app.state.services.lifecycle
        self._drain_timeout = drain_timeout
        self._cause: str | None = None
        self._signals = 0

    async def run_until_stopped(self, listener: socket.socket) -> None:
        """Returns after an orderly stop.

        Raises:
            EngineDied: the backend failed; clients that were waiting have got an error.
        """
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        await self.serve(sockets=[listener])
        if self._cause is not None:
            raise EngineDied(self._cause)
        log.info("stopped")

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ours are installed already; uvicorn's would stop without draining."""
        yield

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: whether to stop now."""
        if self._cause is None and (cause := self._backend.failure()) is not None:
            self._cause = cause
            log.error("the engine is lost: %s", cause)
            self._lifecycle.begin_drain(_FAREWELL)
        if self._lifecycle.draining and not self._lifecycle.active:
            return True
        return await super().on_tick(counter)

    def _on_signal(self, number: signal.Signals) -> None:
        self._signals += 1
        active = self._lifecycle.active
        if self._signals == 1:
            log.info("%s: draining, %d running, at most %g s", number.name, active, self._drain_timeout)
            self._lifecycle.begin_drain(self._drain_timeout)
        elif self._signals == 2:
            log.warning("%s again: cutting %d running", number.name, active)
            self._lifecycle.cut()
        else:
            os._exit(2)
