"""The engine's own process: ``python -m isotherm.engine.process SOCKET_FD PARENT_PID``.

Exit code 0 after an orderly end (told to, or the server is gone), 2 when the engine could not
start for a reason the user can mend, 3 when it failed.

Nothing heavy is imported before the guards are up: loading torch takes seconds, in which the parent
may die.
"""

from __future__ import annotations

import faulthandler
import signal
import socket
import sys
from typing import TYPE_CHECKING

from isotherm.base.orphan import die_with_parent

if TYPE_CHECKING:
    from isotherm.engine.service import Build


def main(arguments: list[str], build: Build | None = None) -> int:
    """Entry point of the child; ``build`` is replaced in tests."""
    _leave_signals_to_parent()
    # Where the kernel cannot do this, and as a second line of defence, the closed socket tells.
    die_with_parent(int(arguments[1]))
    faulthandler.enable()
    from isotherm.engine.service import run  # noqa: PLC0415
    from isotherm.engine.wire import EngineConnection  # noqa: PLC0415

    # Loaded before the first message, which comes when the server's side has opened the checkpoint.
    build = build or _default_build()
    with socket.socket(fileno=int(arguments[0])) as sock:
        return run(EngineConnection(sock), build)


def _leave_signals_to_parent() -> None:
    """Ctrl-C and a service manager's SIGTERM reach the whole group; the server drains, then tells us."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _default_build() -> Build:
    from isotherm.engine.factory import build  # noqa: PLC0415

    return build


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
