"""How long work tells about itself; whoever talks to a person decides how to show it."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many bytes are done, and how many there are (0: unknown)."""


def silent(what: str, done: int, total: int) -> None:
    """Shows nothing."""
