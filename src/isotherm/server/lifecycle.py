"""From ready to stopped: who may enter, who still runs, and how the rest is told to end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from isotherm.base.errors import RequestError


def shutting_down() -> RequestError:
    """The final word to a request that the server could not let finish, or no longer takes."""
    return RequestError(
        "The server is shutting down. Send the request again to another instance, or in a moment.",
        status=503,
        kind="server_error",
        code="server_shutting_down",
        retry_after=5,
    )


class Running:
    """A request in progress. ``stop`` ends its work and says why; the first reason stays."""

    def __init__(self, work: asyncio.Task[Any]) -> None:
        self._work = work
        self.reason: RequestError | None = None

    def stop(self, reason: RequestError) -> None:
        if self.reason is None and not self._work.done():
            self.reason = reason
            self._work.cancel()


class Lifecycle:
    """State of a server: taking requests, draining, or cut.

    ``begin_drain`` is called once, when the process is asked to stop: readiness turns false, new
    requests get 503, running ones go on until ``cut`` ends them with an error that says so and
    ``was_cut`` is set.
    """

    def __init__(self) -> None:
        self.draining = False
        self.was_cut = asyncio.Event()
        self._running: set[Running] = set()

    @property
    def active(self) -> int:
        """Requests in progress."""
        return len(self._running)

    @contextmanager
    def running(self, work: asyncio.Task[Any]) -> Iterator[Running]:
        """Counts ``work`` as a request in progress while the block lasts."""
        entry = Running(work)
        self._running.add(entry)
        if self.was_cut.is_set():
            entry.stop(shutting_down())
        try:
            yield entry
        finally:
            self._running.discard(entry)

    def begin_drain(self, timeout: float) -> None:
        """Take no more requests; those that still run after ``timeout`` seconds are cut."""
        if not self.draining:
            self.draining = True
            asyncio.get_running_loop().call_later(timeout, self.cut)

    def cut(self) -> None:
        """End every request in progress now."""
        self.draining = True
        self.was_cut.set()
        for entry in tuple(self._running):
            entry.stop(shutting_down())
