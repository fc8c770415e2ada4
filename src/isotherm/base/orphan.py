"""A child process must never outlive the process that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when process ``parent`` ends, whatever it is doing then.

    Only Linux can; elsewhere the child has to notice by itself. To the kernel the parent is the thread that
    started the child, so that thread has to live as long as the child should.
    Exits at once if the parent is gone already.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(1)
