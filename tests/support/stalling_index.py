"""A Python package index on 127.0.0.1 that begins to send a wheel and then says nothing more."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANNOUNCED = 90_000_000
SENT = 100_000


class StallingIndex(ThreadingHTTPServer):
    """Offers ``wheel``; ``stalled`` is set when the beginning of it was sent to somebody who now waits."""

    def __init__(self, wheel: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.wheel = wheel
        self.stalled = threading.Event()
        self.over = threading.Event()

    def environment(self) -> dict[str, str]:
        """Ours, in which pip knows this index alone."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        url = f"http://127.0.0.1:{self.server_port}/simple"
        return {**ours, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": url, "NO_PROXY": "127.0.0.1"}


class Handler(BaseHTTPRequestHandler):
    server: StallingIndex

    def do_GET(self) -> None:
        if self.path.endswith(".whl"):
            self._answer("application/zip", ANNOUNCED, bytes(SENT))
            self.server.stalled.set()
            self.server.over.wait(60)
        else:
            page = f'<html><body><a href="/files/{self.server.wheel}">{self.server.wheel}</a></body></html>'.encode()
            self._answer("text/html", len(page), page)

    def _answer(self, kind: str, length: int, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the output belongs to the tests."""


@contextmanager
def stalling_index(wheel: str) -> Iterator[StallingIndex]:
    """One that serves until the block ends."""
    with StallingIndex(wheel) as index:
        thread = threading.Thread(target=index.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield index
        finally:
            index.over.set()
            index.shutdown()
            thread.join()
