"""Take the port before anything slow happens, so that a busy one is known in a second."""

from __future__ import annotations

import errno
import socket
from typing import Any

from isotherm.base.errors import SetupError
from isotherm.cli.holder import holders

_BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """A listening socket at ``host:port``.

    It listens at once (two processes may *bind* one port, only one may listen); clients that come
    while the model loads wait in the backlog and are answered when it is ready.

    Raises:
        SetupError: the address cannot be used; says who holds a busy port and how to choose another.
    """
    family, address = _resolve(host, port)
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as problem:
        listener.close()
        raise SetupError(_why(problem, host, port)) from None
    listener.setblocking(False)
    return listener


def url_of(listener: socket.socket) -> str:
    """Where a client on this machine reaches the listener."""
    host, port = listener.getsockname()[:2]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}"


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as problem:
        raise SetupError(f"--host {host}: {problem.strerror}. Give an address of this machine, or 0.0.0.0.") from None
    family, _, _, _, address = found[0]
    return family, address


def _why(problem: OSError, host: str, port: int) -> str:
    if problem.errno == errno.EADDRINUSE:
        found = holders(port)
        names = "; ".join(str(holder) for holder in found) or "a process that you may not see (try as root: ss -ltnp)"
        stop = f", or stop it: kill {found[0].pid}" if found else ""
        return f"Port {port} is taken by {names}. Choose another with --port N (0 takes a free one){stop}."
    if problem.errno == errno.EACCES:
        return f"Port {port} needs more rights than this user has. Choose one above 1023 with --port."
    if problem.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine. Give one that is with --host, or 0.0.0.0 for all."
    return f"Cannot listen at {host}:{port}: {problem.strerror}. Choose another address with --host and --port."
