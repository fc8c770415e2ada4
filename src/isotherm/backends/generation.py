"""One answer on its way to a reader who may be slow: what waits is merged, never queued piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from isotherm.base.backend import Generation
from isotherm.base.errors import IsothermError
from isotherm.base.outcome import CallPiece, Channel, Delta, Finish, FinishReason, TokenLogprob, Usage


@dataclass(slots=True)
class _Run:
    """Consecutive pending pieces of one channel."""

    channel: Channel
    text: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    calls: list[CallPiece] = field(default_factory=list)

    def delta(self, finish: Finish | None) -> Delta:
        return Delta(
            "".join(self.text),
            tuple(self.token_ids),
            self.channel,
            tuple(self.logprobs),
            finish,
            joined_pieces(self.calls),
        )


class BufferedGeneration(Generation):
    """Fed by the backend with ``push`` and read by one reader.

    A reader that keeps up gets every delta by itself; one that lags gets what has gathered as one
    delta a channel, so an answer never takes more memory than its own tokens.
    """

    def __init__(self, prompt_tokens: int, on_abort: Callable[[], None]) -> None:
        self.prompt_tokens = prompt_tokens
        self._on_abort = on_abort
        self._runs: list[_Run] = []
        self._finish: Finish | None = None
        self._error: IsothermError | None = None
        self._generated = 0
        self._news = asyncio.Event()

    @property
    def ended(self) -> bool:
        return self._finish is not None or self._error is not None

    def push(self, delta: Delta) -> None:
        """Add a piece; nothing is accepted after the end."""
        if self.ended:
            return
        if not self._runs or self._runs[-1].channel is not delta.channel:
            self._runs.append(_Run(delta.channel))
        run = self._runs[-1]
        run.text.append(delta.text)
        run.token_ids += delta.token_ids
        run.logprobs += delta.logprobs
        run.calls += delta.calls
        self._generated += len(delta.token_ids)
        self._finish = delta.finish
        self._news.set()

    def fail(self, error: IsothermError) -> None:
        """The answer cannot go on; the reader gets what is pending and then ``error``."""
        if not self.ended:
            self._error = error
            self._news.set()

    def stop(self) -> None:
        """End with reason abort, keeping what is pending."""
        usage = Usage(self.prompt_tokens, self._generated)
        self.push(Delta(finish=Finish(FinishReason.ABORT, usage)))

    async def abort(self) -> None:
        if not self.ended:
            self._on_abort()
            self.stop()

    async def __aiter__(self) -> AsyncIterator[Delta]:
        while True:
            await self._news.wait()
            self._news.clear()
            runs, self._runs = self._runs, []
            for index, run in enumerate(runs, 1):
                yield run.delta(self._finish if index == len(runs) and not self._runs else None)
            if self._runs:
                self._news.set()
            elif self._finish is not None:
                return
            elif self._error is not None:
                raise self._error


def joined_pieces(pieces: Iterable[CallPiece]) -> tuple[CallPiece, ...]:
    """Consecutive pieces of one call as one."""
    found = []
    for index, run in groupby(pieces, key=attrgetter("index")):
        same = list(run)
        arguments = "".join(piece.arguments for piece in same)
        found.append(CallPiece(index, same[0].id, same[0].name, arguments, same[-1].done))
    return tuple(found)
