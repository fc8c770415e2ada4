"""Show that a slow start is alive: nothing for two seconds, then what is going on and for how long."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TextIO

_SILENT_SECONDS = 2.0
_LINE_EVERY_SECONDS = 10.0
_HINT_AFTER_SECONDS = 12.0
_HINT = " (the first start of a version compiles its kernels for this machine: a minute or two, once)"


@asynccontextmanager
async def progress(text: str, stream: TextIO | None = None) -> AsyncIterator[None]:
    """While the block runs: a line that is rewritten on a terminal, a new line now and then elsewhere."""
    out = stream or sys.stderr
    task = asyncio.create_task(_tell(text, out))
    try:
        yield
    finally:
        task.cancel()
        if out.isatty():
            out.write("\r\x1b[K")
            out.flush()


async def _tell(text: str, out: TextIO) -> None:
    start = time.monotonic()
    await asyncio.sleep(_SILENT_SECONDS)
    while True:
        seconds = time.monotonic() - start
        line = f"{text} ... {seconds:.0f} s{_HINT if seconds > _HINT_AFTER_SECONDS else ''}"
        out.write(f"\r{line}\x1b[K" if out.isatty() else f"{line}\n")
        out.flush()
        await asyncio.sleep(0.5 if out.isatty() else _LINE_EVERY_SECONDS)
