"""Sends a workload with a fixed number of requests in flight: as one ends, the next begins (closed loop)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any

import msgspec

from isotherm.bench.http import Endpoint, Exchange

ROUTE = "/v1/chat/completions"


@dataclass(slots=True)
class Run:
    """Exchanges of one run in order of their end, growing while it runs; ``seconds`` of wall time.

    ``client_cpu_seconds`` is what this process itself computed meanwhile.
    """

    exchanges: list[Exchange] = field(default_factory=list)
    seconds: float = 0.0
    client_cpu_seconds: float = 0.0


def encode(request: dict[str, Any], model: str) -> bytes:
    """A streamed request that asks for usage at its end."""
    streaming = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    return msgspec.json.encode({**request, **streaming})


async def drive(
    endpoint: Endpoint, bodies: Iterator[bytes], concurrency: int, run: Run, on_end: Callable[[Run], None]
) -> None:
    """Send all ``bodies``, ``concurrency`` at a time, collecting into ``run``.

    When cancelled, ``run`` keeps the exchanges that ended before and the time until then.
    """
    began, computed = perf_counter(), process_time()

    async def worker() -> None:
        for body in bodies:
            run.exchanges.append(await endpoint.post(ROUTE, body))
            on_end(run)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
    finally:
        run.seconds = perf_counter() - began
        run.client_cpu_seconds = process_time() - computed
