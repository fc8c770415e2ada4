"""Looking at processes from outside, through /proc."""

import os
from pathlib import Path


def children(pid):
    """PIDs of the direct children of a process."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def engine_of(pid):
    """PID of the engine process of a server."""
    (engine,) = [child for child in children(pid) if b"isotherm.engine" in Path(f"/proc/{child}/cmdline").read_bytes()]
    return engine


def alive(pid):
    """Whether a process runs; one that is dead but not yet collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z" and os.path.exists(f"/proc/{pid}")
