"""A server under test as a process: started on a free port, paused while another is measured, ended for sure."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import msgspec

from lab.machine import neutral
from lab.processes import send, tree

START_LIMIT_S = 1200.0
"""vLLM compiles for minutes on its first start."""
STOP_LIMIT_S = 30.0
ASK = msgspec.json.encode({"model": "any", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1})


@dataclass(frozen=True, slots=True)
class Command:
    """How to start a server: ``words(port)``, with ``environment`` on top of ours."""

    words: Callable[[int], Sequence[str]]
    environment: Mapping[str, str] = field(default_factory=dict)

    def shown(self) -> str:
        """For a result file: environment and words, without this machine's paths."""
        assigned = [f"{name}={value}" for name, value in self.environment.items()]
        return " ".join([*neutral(assigned), *neutral([str(word) for word in self.words(0)])])


class Server:
    """A running server; use it as a context. ``model`` is the name that it serves its model under."""

    def __init__(self, command: Command, model: str | None = None) -> None:
        self.command = command
        self.model = model
        self.url = ""
        self.start_seconds = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._before: Any = signal.SIG_DFL

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Server:
        # A script that is told to end must end its servers: turn the signal into an exception.
        self._before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = tempfile.TemporaryFile()
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [str(word) for word in self.command.words(port)],
            env={**os.environ, **self.command.environment},
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            self._wait_for_first_answer()
        except BaseException:
            self.__exit__()
            raise
        self.start_seconds = time.perf_counter() - began
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._log is not None
        self.resume()
        members = tree(self.pid)
        self._process.terminate()
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _end_rest(members, session=self.pid)
        self._log.close()
        signal.signal(signal.SIGTERM, self._before)

    def restart(self) -> None:
        """Start again from nothing, for a server that has died."""
        self.__exit__()
        self.__enter__()

    def pause(self) -> None:
        """Take it off the processor, so that an idle server cannot disturb the one that is measured."""
        send(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        send(self.pid, signal.SIGCONT)

    def log_tail(self) -> str:
        """The last words of the server, for an error message."""
        assert self._log is not None
        self._log.seek(0)
        return self._log.read()[-3000:].decode(errors="replace")

    def _wait_for_first_answer(self) -> None:
        """Until a chat request is answered: a port that accepts is not yet a model that speaks."""
        deadline = time.perf_counter() + START_LIMIT_S
        while not self._answers():
            assert self._process is not None
            if self._process.poll() is not None or time.perf_counter() > deadline:
                raise SystemExit(f"The server did not start: {self.command.shown()}\n{self.log_tail()}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        body = ASK if self.model is None else ASK.replace(b'"any"', msgspec.json.encode(self.model))
        request = Request(f"{self.url}/v1/chat/completions", body, {"Content-Type": "application/json"})
        try:
            with urlopen(request, timeout=120) as response:
                return bool(response.status == 200)
        except (URLError, OSError):
            return False


def _end_rest(members: Sequence[int], session: int) -> None:
    """Kill what a server left behind. An id that the system gave to a stranger meanwhile is in another session."""
    for process in members:
        with suppress(ProcessLookupError):
            if os.getsid(process) == session:
                os.kill(process, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def say(text: str) -> None:
    """Talk for the person who waits, on stderr."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)
