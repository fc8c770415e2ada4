"""A pseudo-terminal with one of our commands in it."""

import os
import pty
import select
import signal
import sys
import time


class Terminal:
    """A command of ours in a pseudo-terminal, driven as a person would."""

    def __init__(self, *words, **env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm", "INPUTRC": os.devnull, **env})
            os.execv(sys.executable, [sys.executable, "-m", "isotherm", *words])
        self.seen = ""

    def send(self, text):
        os.write(self.fd, text.encode())

    def expect(self, text, seconds=20):
        """What came up to and including ``text``."""
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"waited in vain for {text!r}; saw {self.seen!r}"
            try:
                self.seen += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                raise AssertionError(f"the program ended before {text!r}; saw {self.seen!r}") from None
        before, found, self.seen = self.seen.partition(text)
        return before + found

    def say(self, text, enter="\n"):
        """Type at the prompt. Keys sent before it shows would meet the terminal in another mode."""
        self.expect("> ")
        self.send(text + enter)

    def wait(self, seconds=20):
        """The exit code; the program is killed if it does not end."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError("the program did not end")
