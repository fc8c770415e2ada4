"""Shows a download on stderr: a bar on a terminal, otherwise a line for every tenth."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from isotherm.model.progress import Progress


@contextmanager
def transfer(stream: TextIO | None = None) -> Iterator[Progress]:
    """Gives the function to report to; nothing is shown before its first call."""
    out = stream or sys.stderr
    if not out.isatty():
        yield _Lines(out).report
        return
    from rich.console import Console  # noqa: PLC0415  (only a terminal pays for it)
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bar(*columns, console=Console(file=out)) as bar:
        tasks = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what)
            bar.update(tasks[what], completed=done, total=total or None)

        yield report


class _Lines:
    """Plain lines for logs and pipes."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._shown: tuple[str, int] | None = None

    def report(self, what: str, done: int, total: int) -> None:
        tenth = 10 * done // total if total else 0
        if self._shown is None or self._shown[0] != what or self._shown[1] < tenth:
            self._shown = (what, tenth)
            print(f"{what}: {10 * tenth} % of {total / 1e6:.0f} MB" if total else what, file=self._out, flush=True)
