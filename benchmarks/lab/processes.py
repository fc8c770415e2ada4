"""A process and its descendants, from /proc: who they are, what they weigh, stopping them together."""

from __future__ import annotations

import os
import signal
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path


def tree(root: int) -> list[int]:
    """Ids of ``root`` and everything that descends from it now, parents first."""
    children = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                # The command may hold spaces and brackets; the parent's id is the second field after it.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                children[int(fields[1])].append(int(entry.name))
    found = [root]
    for process in found:
        found += children[process]
    return found


def send(root: int, number: signal.Signals) -> None:
    """A signal to the whole tree; who is gone meanwhile is no error."""
    for process in tree(root):
        with suppress(ProcessLookupError):
            os.kill(process, number)


def memory_bytes(root: int) -> tuple[int, int]:
    """(PSS, RSS) of the tree. PSS counts a page that n processes share as 1/n in each, so that sums are right."""
    proportional = resident = 0
    for process in tree(root):
        with suppress(OSError):
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    proportional += int(line.split()[1]) * 1024
                elif line.startswith("Rss:"):
                    resident += int(line.split()[1]) * 1024
    return proportional, resident


class PeakMemory:
    """Samples a tree's memory while the block runs; ``pss`` and ``rss`` are the highest sums seen, in bytes."""

    def __init__(self, root: int, interval: float = 0.2) -> None:
        self.pss = 0
        self.rss = 0
        self._root = root
        self._interval = interval
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            pss, rss = memory_bytes(self._root)
            self.pss, self.rss = max(self.pss, pss), max(self.rss, rss)
            if self._ended.wait(self._interval):
                return
