"""Runs a request's work until it is done, its client leaves, its time is up, or the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from isotherm.base.errors import RequestError
from isotherm.server.lifecycle import Lifecycle

T = TypeVar("T")


class ClientGone(Exception):
    """The client closed its connection before the answer was complete."""


def timed_out(seconds: float) -> RequestError:
    """The refusal of a request whose answer took longer than the operator allows."""
    return RequestError(
        f"The answer was not complete after {seconds:g} seconds, the limit of this server (request_timeout). "
        "Ask for fewer tokens, or raise the limit.",
        status=504,
        kind="timeout_error",
        code="request_timeout",
    )


async def supervise(work: Coroutine[Any, Any, T], receive: Receive, lifecycle: Lifecycle, limit: float) -> T:
    """The result of ``work``, which gets ``limit`` seconds.

    ``work`` must clean up when it is cancelled; it is always over when this returns.

    Raises:
        ClientGone: the connection closed first.
        RequestError: the time was up or the server stops; or whatever ``work`` raised.
    """
    task = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(_disconnect(receive))
    with lifecycle.running(task) as entry:
        timer = asyncio.get_running_loop().call_later(limit, entry.stop, timed_out(limit))
        try:
            await asyncio.wait((task, watcher), return_when=asyncio.FIRST_COMPLETED)
            left = not task.done()
        finally:
            timer.cancel()
            watcher.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
    if task.cancelled():
        if entry.reason is not None:
            raise entry.reason
        if left:
            raise ClientGone
    return task.result()


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
