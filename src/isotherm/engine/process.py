"""The engine's own process: ``python -m isotherm.engine.process SOCKET_FD PARENT_PID``.

Exit code 0 after an orderly end (told to, or the server is gone), 2 when the engine could not
start for a reason the user can mend, 3 when it failed.

Nothing heavy is imported before the guards are up: loading torch takes seconds, in which the parent
may die.
"""

from __future__ import annotations

import faulthandler
import socket
import sys
from typing import TYPE_CHECKING

from isotherm.engine.orphan import die_with_parent, leave_signals_to_parent

if TYPE_CHECKING:
    from isotherm.engine.service import Build


def main(arguments: list[str], build: Build | None = None) -> int:
    """Entry point of the child; ``build`` is replaced in tests."""
    leave_signals_to_parent()
    die_with_parent(int(arguments[1]))
    faulthandler.enable()
    from isotherm.engine.service import run  # noqa: PLC0415
    from isotherm.engine.wire import EngineConnection  # noqa: PLC0415

    # Loaded before the first message, which comes when the server's side has opened the checkpoint.
    build = build or _default_build()
    with socket.socket(fileno=int(arguments[0])) as sock:
        return run(EngineConnection(sock), build)


def _default_build() -> Build:
    from isotherm.engine.factory import build  # noqa: PLC0415

    return build


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
