"""The engine as a child process: started with one end of a socket pair, watched, and never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence

ENGINE_COMMAND = (sys.executable, "-m", "isotherm.engine.process")

_STDERR = 2
_LAST_LINES = 12
_POLL_SECONDS = 0.02


class ChildProcess:
    """A running engine process. ``socket`` is our end; the child's stderr goes on to ours.

    Start it from a thread that lives as long as the process should: Linux kills the child when the
    thread that created it ends.
    """

    def __init__(self, command: Sequence[str] = ENGINE_COMMAND) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=_environment(),
            )
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._pump = threading.Thread(target=self._forward_stderr, name="engine-stderr", daemon=True)
        self._pump.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait(self, seconds: float) -> bool:
        """Whether the process ended within ``seconds``."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self._process.poll() is None:
            if asyncio.get_running_loop().time() >= deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        self._pump.join(timeout=1)
        return True

    def kill(self) -> None:
        """End it now; returns when it is gone."""
        self._process.kill()
        self._process.wait()

    def describe_exit(self) -> str:
        """How the process ended, in words, with the last lines that it wrote to stderr."""
        lines = "\n".join(self._last_lines)
        return _exit_in_words(self._process.poll()) + (f"; its last words:\n{lines}" if lines else "")

    def _forward_stderr(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        for line in stream:
            os.write(_STDERR, line)
            self._last_lines.append(line.decode(errors="replace").rstrip())


def _exit_in_words(code: int | None) -> str:
    if code is None:
        return "the engine process closed its connection but still runs"
    if code == -signal.SIGKILL:
        return "the engine process was killed (SIGKILL); if nobody did it by hand, the machine ran out of memory"
    if code < 0:
        return f"the engine process crashed ({signal.Signals(-code).name})"
    return f"the engine process exited with code {code}"


def _environment() -> dict[str, str]:
    """Ours, with bounded OpenMP spinning.

    A decode step has some 150 short parallel parts. Threads that sleep between them wake too late (2 cores, quiet:
    13 ms a token against 5); threads that spin without bound hold up the very thread they wait for when cores are
    shared (7 busy neighbours: 94 ms against 16). Two thousand turns, some tens of microseconds, lie between (43 ms
    with them).
    """
    return {"GOMP_SPINCOUNT": "2000", **os.environ, "PYTHONUNBUFFERED": "1"}
