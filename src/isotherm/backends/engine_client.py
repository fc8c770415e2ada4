"""One running engine: started, spoken to, and declared dead when it is, with the reason."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from isotherm.backends.link import EngineLink
from isotherm.base.backend import Loaded, unwatched
from isotherm.base.errors import EngineDied, SetupError
from isotherm.base.stats import Stats
from isotherm.engine.messages import Abort, Answer, Fatal, Loading, Output, Piece, Ready, Shutdown, Start, Submit
from isotherm.engine.options import EngineOptions

CLOSE_SECONDS = 3.0
"""How long an engine may take to finish its step and leave before it is killed."""


class EngineProcess(Protocol):
    """An engine at the other end of a socket; ``child.ChildProcess`` for real, a thread in tests."""

    async def wait(self, seconds: float) -> bool:
        """Whether it ended within so many seconds."""

    def kill(self) -> None: ...

    def describe_exit(self) -> str: ...


class EngineClient:
    """Sends requests to an engine and hands its pieces to whoever waits for them.

    ``on_death`` is called once, with the reason, if the engine ends without being told to.
    """

    def __init__(self, process: EngineProcess, link: EngineLink, on_death: Callable[[EngineDied], None]) -> None:
        self._process = process
        self._link = link
        self._on_death = on_death
        self._numbers = itertools.count()
        self._receivers: dict[int, Callable[[Piece], None]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._closing = False
        self._last_words: str | None = None
        self.failure: str | None = None
        self.stats = Stats()

    @property
    def unfinished(self) -> int:
        """Sequences that were submitted and neither finished nor were aborted."""
        return len(self._receivers)

    async def start(self, options: EngineOptions, loaded: Loaded = unwatched) -> Ready:
        """Wait until the engine is loaded; raises SetupError with the cause if it never will be."""
        self._link.send(Start(options))
        answers = self._link.answers()
        while isinstance(first := await anext(answers, None), Loading):
            loaded(first.done, first.total)
        if isinstance(first, Ready):
            self._reading = asyncio.create_task(self._read(answers), name="engine-answers")
            return first
        ended = await self._process.wait(CLOSE_SECONDS)
        cause = first.message if isinstance(first, Fatal) else self._process.describe_exit()
        if not ended:
            self._process.kill()
        raise SetupError(cause)

    def submit(self, make: Callable[[int], Submit], receive: Callable[[Piece], None]) -> int:
        """Queue a sequence; returns its number. ``receive`` gets its pieces until one carries a finish."""
        number = next(self._numbers)
        self._receivers[number] = receive
        self._link.send(make(number))
        return number

    def abort(self, number: int) -> None:
        """Stop a sequence; nothing of it is received any more."""
        if self._receivers.pop(number, None) is not None:
            self._link.send(Abort([number]))

    async def close(self) -> None:
        """End the engine in order, or by force if it does not listen; leaves no process."""
        self._closing = True
        self._link.send(Shutdown())
        if self._reading is None or not await self._process.wait(CLOSE_SECONDS):
            self._process.kill()
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading
        self._link.close()

    async def _read(self, answers: AsyncIterator[Answer]) -> None:
        async for answer in answers:
            if isinstance(answer, Output):
                self.stats = answer.stats
                for piece in answer.pieces:
                    self._deliver(piece)
            elif isinstance(answer, Fatal):
                self._last_words = answer.message
        if not self._closing:
            await self._die()

    def _deliver(self, piece: Piece) -> None:
        receive = self._receivers.get(piece.sequence)
        if receive is None:
            return
        if piece.finish is not None:
            del self._receivers[piece.sequence]
        receive(piece)

    async def _die(self) -> None:
        if not await self._process.wait(CLOSE_SECONDS):
            self._process.kill()
        self.failure = self._last_words or self._process.describe_exit()
        self._receivers.clear()
        self._on_death(EngineDied(f"the engine ended unexpectedly: {self.failure}"))
