"""Show that a slow start is alive: nothing for two seconds, then how far it is and how long it has taken so far."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TextIO

_SILENT_SECONDS = 2.0
_LINE_EVERY_SECONDS = 10.0
_REWRITTEN_EVERY_SECONDS = 0.5
_HINT_AFTER_SECONDS = 12.0
_HINT = " (the first start of a version compiles its kernels for this machine: a minute or two, once)"
_BAR = 24


@dataclass(frozen=True, slots=True)
class Screen:
    """Where it is shown. ``rewritten`` is a terminal, whose one line is replaced; others get a line now and then."""

    write: Callable[[str], None]
    rewritten: bool = False


def screen_of(stream: TextIO) -> Screen:
    """Rewrites one line if ``stream`` is a terminal."""
    rewritten = stream.isatty()

    def write(line: str) -> None:
        stream.write(f"\r{line}\x1b[K" if rewritten else f"{line}\n")
        stream.flush()

    return Screen(write, rewritten)


class Loading:
    """A start on its way; hand ``layers`` to whoever loads."""

    def __init__(self, text: str, screen: Screen) -> None:
        self._text, self._screen = text, screen
        self._done = self._total = 0
        self._start = time.monotonic()

    def layers(self, done: int, total: int) -> None:
        """So many of the model's layers are loaded."""
        self._done, self._total = done, total

    @asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """While the block runs; a terminal's line is cleared at the end."""
        task = asyncio.create_task(self._tell())
        try:
            yield
        finally:
            task.cancel()
            if self._screen.rewritten:
                self._screen.write("")

    async def _tell(self) -> None:
        await asyncio.sleep(self._start + _SILENT_SECONDS - time.monotonic())
        while True:
            self._screen.write(self._line(time.monotonic() - self._start))
            await asyncio.sleep(_REWRITTEN_EVERY_SECONDS if self._screen.rewritten else _LINE_EVERY_SECONDS)

    def _line(self, seconds: float) -> str:
        if not 0 < self._done < self._total:
            # Before the first layer files are opened, after the last one kernels are made ready.
            return f"{self._text} ... {seconds:.0f} s{_HINT if seconds > _HINT_AFTER_SECONDS else ''}"
        full = _BAR * self._done // self._total
        bar = f" [{'#' * full}{'.' * (_BAR - full)}]" if self._screen.rewritten else ""
        return f"{self._text}{bar} {self._done} of {self._total} layers ... {seconds:.0f} s"
