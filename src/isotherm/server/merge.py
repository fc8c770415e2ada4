"""Several generations as one sequence of (choice, delta) pairs, in the order in which deltas come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from isotherm.base.backend import Generation
from isotherm.base.outcome import Delta

_Queue = asyncio.Queue[tuple[int, Delta | None]]


async def merged(generations: Sequence[Generation]) -> AsyncGenerator[tuple[int, Delta], None]:
    """Deltas of all generations with their place in the list; raises what any of them raises.

    What a slow client has not taken waits in memory; max_tokens and the context bound it.
    """
    if len(generations) == 1:
        async for delta in generations[0]:
            yield 0, delta
        return
    queue: _Queue = asyncio.Queue()
    pumps = [asyncio.ensure_future(_pump(index, each, queue)) for index, each in enumerate(generations)]
    try:
        running = len(pumps)
        while running:
            index, item = await queue.get()
            if item is None:
                running -= 1
                pumps[index].result()
            else:
                yield index, item
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(index: int, generation: Generation, queue: _Queue) -> None:
    try:
        async for delta in generation:
            queue.put_nowait((index, delta))
    finally:
        queue.put_nowait((index, None))
