"""The engine must never outlive the server that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when process ``parent`` ends, whatever it is doing then.

    Only Linux can; elsewhere, and as a second line of defence here, the closed socket tells.
    Exits at once if the parent is gone already.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(1)


def leave_signals_to_parent() -> None:
    """Ctrl-C and a service manager's SIGTERM reach the whole group; the server drains, then tells us."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
