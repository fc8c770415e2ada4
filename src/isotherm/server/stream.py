"""Delivers a job: as server-sent events while it is generated, or whole when it is done.

Headers of a stream go out as soon as the turns are queued; comments keep the connection alive while
nothing comes. An end that is not the model's own is an ``error`` event: no finish_reason is invented
and no [DONE] follows, so no client can take a cut answer for a complete one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from isotherm.base.backend import Generation
from isotherm.base.errors import EngineDied, RequestError
from isotherm.base.outcome import Delta, Finish, FinishReason
from isotherm.server.context import Services
from isotherm.server.errors import engine_failure, error_object, internal_error
from isotherm.server.job import Job, abort_all
from isotherm.server.merge import merged
from isotherm.server.meter import Meter
from isotherm.server.shapes import DONE, KEEPALIVE, Shape, event
from isotherm.server.supervise import ClientGone, supervise

log = logging.getLogger("isotherm.server")
_LAST_WORDS = 1.0
"""Seconds that a client gets to take an error event before its connection is closed."""


class Delivery:
    """One job under way: its generations, its shape on the wire, its times."""

    def __init__(
        self, services: Services, job: Job, generations: Sequence[Generation], shape: Shape, meter: Meter
    ) -> None:
        self.services = services
        self.job = job
        self.shape = shape
        self.meter = meter
        self._generations = generations

    async def deltas(self) -> AsyncGenerator[tuple[int, Delta], None]:
        """Noted deltas of all choices; when this is closed, nothing generates any more.

        Raises:
            RequestError: a choice ended by itself with an error; or the engine died.
        """
        note = self.meter.note
        try:
            async with aclosing(merged(self._generations)) as pairs:
                async for index, delta in pairs:
                    note(index, delta)
                    if delta.finish is not None:
                        self._end(index, delta.finish)
                    yield index, delta
            if self.meter.finished < len(self._generations):
                raise engine_failure("The answer broke off without an end.")
        except EngineDied as error:
            raise engine_failure(f"The engine stopped while it answered: {error}") from error
        finally:
            await abort_all(self._generations)

    def _end(self, index: int, finish: Finish) -> None:
        if finish.reason in (FinishReason.ABORT, FinishReason.ERROR):
            raise engine_failure(finish.error or "The engine gave the answer up.")
        self.meter.finish(index, finish)


async def whole_answer(delivery: Delivery, receive: Receive) -> bytes:
    """The body of an answer that is not streamed.

    Raises:
        RequestError: it broke off, took too long, or the server stops.
        ClientGone: nobody waits for it any more; its generations are aborted.
    """
    services = delivery.services
    try:
        return await supervise(_collect(delivery), receive, services.lifecycle, services.config.request_timeout)
    except RequestError as error:
        services.metrics.count("abnormal_ends_total", cause=error.code or "error")
        raise
    except ClientGone:
        services.metrics.count("abnormal_ends_total", cause="client_gone")
        raise


async def _collect(delivery: Delivery) -> bytes:
    collected: list[list[Delta]] = [[] for _ in delivery.job.turns]
    ends: list[Finish | None] = [None for _ in delivery.job.turns]
    async with aclosing(delivery.deltas()) as pairs:
        async for index, delta in pairs:
            collected[index].append(delta)
            ends[index] = delta.finish or ends[index]
    choices = [
        delivery.shape.choice(index, deltas) | delivery.shape.ending(finish)
        for index, (deltas, finish) in enumerate(zip(collected, ends, strict=True))
        if finish is not None
    ]
    return delivery.shape.whole(choices, delivery.meter.usage())


class EventStream(Response):
    """An ASGI response that writes a delivery's events."""

    media_type = "text/event-stream"

    def __init__(self, delivery: Delivery, headers: dict[str, str], request_id: str) -> None:
        super().__init__(None, 200, headers | {"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._delivery = delivery
        self._request_id = request_id
        self._writing = False
        self._last = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        services = self._delivery.services
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            await supervise(self._events(send), receive, services.lifecycle, services.config.request_timeout)
        except ClientGone:
            self._count("client_gone", "the client left")
        except RequestError as error:
            self._count(error.code or "error", error.message)
            await self._last_words(send, error)
        except Exception:
            # The status is already on the wire: a stream's only way to say "our fault" is an error event.
            log.exception("a request failed inside its stream", extra={"request_id": self._request_id})
            self._count("internal_error", "see the traceback above")
            await self._last_words(send, internal_error(self._request_id))

    def _count(self, cause: str, why: str) -> None:
        self._delivery.services.metrics.count("abnormal_ends_total", cause=cause)
        log.info("a stream ended early: %s", why, extra={"cause": cause, "request_id": self._request_id})

    async def _events(self, send: Send) -> None:
        keeper = asyncio.ensure_future(self._keep_alive(send))
        shape = self._delivery.shape
        try:
            async with aclosing(self._delivery.deltas()) as pairs:
                async for index, delta in pairs:
                    data = shape.delta(index, delta)
                    if delta.finish is not None:
                        data += shape.finish(index, delta.finish)
                    if data:
                        await self._write(send, data)
        finally:
            keeper.cancel()
        usage = self._delivery.meter.usage()
        last = shape.usage(usage) if self._delivery.job.include_usage else b""
        await send({"type": "http.response.body", "body": last + DONE, "more_body": False})

    async def _write(self, send: Send, data: bytes) -> None:
        self._writing = True
        await send({"type": "http.response.body", "body": data, "more_body": True})
        self._writing = False
        self._last = asyncio.get_running_loop().time()

    async def _keep_alive(self, send: Send) -> None:
        """A comment after every silent interval. A client that does not read gets none: they would pile up."""
        interval = self._delivery.services.config.keepalive
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        while True:
            await asyncio.sleep(max(self._last + interval - loop.time(), interval / 10))
            if not self._writing and loop.time() - self._last >= interval:
                await self._write(send, KEEPALIVE)

    async def _last_words(self, send: Send, error: RequestError) -> None:
        message = {"type": "http.response.body", "body": event(error_object(error)), "more_body": False}
        try:
            async with asyncio.timeout(_LAST_WORDS):
                await send(message)
        except TimeoutError:
            log.info("a client does not read; its stream is closed", extra={"request_id": self._request_id})
