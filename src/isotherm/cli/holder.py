"""Which process listens on a port, read from /proc; nobody is named where there is no /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_LISTEN = "0A"
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that listens on the port. ``memory`` is resident bytes, ``age_s`` seconds since its start."""

    pid: int
    command: str
    memory: int
    age_s: float

    def __str__(self) -> str:
        return f"PID {self.pid} ({self.command}), started {_ago(self.age_s)} ago, {self.memory / 1e6:.0f} MB in memory"


def holders(port: int, proc: Path = _PROC) -> list[Holder]:
    """Processes that listen on ``port`` on any address; those of other users cannot be seen without root."""
    inodes = set(_listening_inodes(port, proc))
    if not inodes:
        return []
    return [holder for folder in proc.glob("[0-9]*") if (holder := _holder(folder, inodes, proc)) is not None]


def _listening_inodes(port: int, proc: Path) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        try:
            rows = (proc / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _holder(folder: Path, inodes: set[str], proc: Path) -> Holder | None:
    try:
        if inodes.isdisjoint(_sockets(folder / "fd")):
            return None
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        # The command name in parentheses may hold blanks; the numbers follow the last one.
        numbers = (folder / "stat").read_text().rpartition(")")[2].split()
        pages = int((folder / "statm").read_text().split()[1])
        uptime = float((proc / "uptime").read_text().split()[0])
    except OSError:
        return None
    age = uptime - int(numbers[19]) / os.sysconf("SC_CLK_TCK")
    return Holder(int(folder.name), " ".join(words).strip(), pages * os.sysconf("SC_PAGE_SIZE"), age)


def _sockets(folder: Path) -> Iterator[str]:
    """Inodes of a process's open sockets; descriptors that close while we look are passed over."""
    for link in folder.iterdir():
        with suppress(OSError):
            target = os.readlink(link)
            if target.startswith("socket:["):
                yield target[len("socket:[") : -1]


def _ago(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
