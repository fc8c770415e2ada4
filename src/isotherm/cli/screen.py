"""A terminal, or what stands in for one: colour only where it helps, model text made harmless."""

from __future__ import annotations

import os
import sys
from typing import TextIO

_DIM = "\x1b[2m"
_RESET = "\x1b[0m"
_KEPT_CONTROLS = frozenset("\n\t")


def wants_colour(stream: TextIO) -> bool:
    """Colour on a terminal, unless NO_COLOR is set (to anything but nothing) or the terminal is dumb."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def harmless(text: str) -> str:
    """Text without control characters, so that a model cannot steer the reader's terminal."""
    return "".join(char for char in text if char in _KEPT_CONTROLS or not _is_control(char))


def _is_control(char: str) -> bool:
    return ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0


class Screen:
    """Answers on ``out``, talk on ``err``."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self._dim_out = wants_colour(self.out)
        self._dim_err = wants_colour(self.err)

    @property
    def talkative(self) -> bool:
        """Whether a person reads ``err``; figures after an answer are only for them."""
        return self.err.isatty()

    def answer(self, text: str, *, dim: bool = False) -> None:
        """A piece of answer, shown at once; raw when nobody but a program reads it."""
        shown = harmless(text) if self.out.isatty() else text
        self.out.write(f"{_DIM}{shown}{_RESET}" if dim and self._dim_out else shown)
        self.out.flush()

    def talk(self, text: str) -> None:
        """A line for the person."""
        shown = harmless(text)
        self.err.write(f"{_DIM}{shown}{_RESET}\n" if self._dim_err else f"{shown}\n")
        self.err.flush()
