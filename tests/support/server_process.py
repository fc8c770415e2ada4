"""A server as a child process: its log as it comes, its URL, its end."""

import os
import subprocess
import threading
import time
from contextlib import suppress

import httpx


class ServerProcess:
    """Started on a free port; ``log`` grows while it runs. Leaves nothing behind."""

    def __init__(self, command, **env):
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **env},
            # A group of its own, as in a terminal: signals to the group reach its children too.
            process_group=0,
        )
        self.log = ""
        self._ended = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self.log += line
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_for(self, text, seconds=60):
        """The log, as soon as it holds ``text``."""
        with self._changed:
            found = self._changed.wait_for(lambda: text in self.log or self._ended, seconds)
        assert found, f"waited in vain for {text!r}:\n{self.log}"
        assert text in self.log, f"ended without {text!r}:\n{self.log}"
        return self.log

    def url(self, seconds=300):
        """The base URL, once the server is ready; the very first start on a machine compiles kernels."""
        log = self.wait_for("OpenAI base URL: ", seconds)
        return log.split("OpenAI base URL: ")[1].split()[0].removesuffix("/v1")

    def end(self, seconds=20):
        """The exit code of a process that ends by itself within ``seconds``."""
        code = self.process.wait(seconds)
        self._reader.join(5)
        return code

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(5)
        self.process.stdout.close()


class Stream(threading.Thread):
    """A streamed chat, read by a thread; ``lines`` holds what came, ``ended`` when the server closed it."""

    def __init__(self, url, prompt="go", **body):
        super().__init__(daemon=True)
        self.lines = []
        self.first = threading.Event()
        self._url = url
        self._body = {"model": "m", "messages": [{"role": "user", "content": prompt}], "stream": True, **body}
        self.start()
        assert self.first.wait(30), "no answer began"

    def run(self):
        with suppress(httpx.RemoteProtocolError):  # a killed server cannot say goodbye
            self._take()

    def _take(self):
        request = httpx.stream("POST", f"{self._url}/v1/chat/completions", json=self._body, timeout=60, trust_env=False)
        with request as response:
            for line in response.iter_lines():
                if line.startswith("data:"):
                    self.lines.append(line.removeprefix("data: "))
                    self.first.set()

    def end(self, seconds=20):
        self.join(seconds)
        assert not self.is_alive(), "the stream never ended"
        return self.lines


def wait_until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
