"""Two ways to reach an application: in process, and over a real socket with the server that people run."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from isotherm.server.app import create_app
from isotherm.server.config import ServerConfig
from isotherm.server.run import Server
from support.scripted_backend import ScriptedBackend

HI: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


def in_process(backend: ScriptedBackend | None = None, **config: Any) -> httpx.AsyncClient:
    """A client of an application without sockets; a defect of ours is an answer 500, as for any client."""
    app = create_app(backend or ScriptedBackend(), ServerConfig(**config))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


@dataclass
class Running:
    """A server in a thread. ``call`` runs a function on its event loop."""

    url: str
    port: int
    server: Server
    backend: ScriptedBackend
    loop: asyncio.AbstractEventLoop
    thread: threading.Thread

    def call(self, function: Any, *args: Any) -> None:
        self.loop.call_soon_threadsafe(function, *args)

    def stop(self) -> None:
        """What a signal does."""
        self.call(self.server.handle_exit, 2, None)


@contextmanager
def running(backend: ScriptedBackend | None = None, **config: Any) -> Iterator[Running]:
    """The application behind uvicorn on a free port of the loopback device."""
    backend = backend or ScriptedBackend()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    started = threading.Event()
    found: dict[str, Any] = {}

    async def main() -> None:
        found["loop"] = asyncio.get_running_loop()
        found["server"] = server = Server(create_app(backend, ServerConfig(**config)))
        started.set()
        await server.serve([listener])

    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    assert started.wait(10)
    url = f"http://127.0.0.1:{port}"
    entry = Running(url, port, found["server"], backend, found["loop"], thread)
    try:
        yield entry
    finally:
        if thread.is_alive():
            entry.stop()
            entry.stop()
        thread.join(30)
        assert not thread.is_alive(), "the server did not stop"
