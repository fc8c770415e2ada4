"""Numbers given on the command line, and what is said about those that make no sense."""

from __future__ import annotations

from isotherm.base.errors import SetupError


def whole(flag: str, text: str, least: int) -> int:
    """A whole number from ``least`` up."""
    if not text.strip().isdecimal() or int(text) < least:
        raise SetupError(f"{flag} takes whole numbers from {least} up, not {text!r}.")
    return int(text)


def number(flag: str, text: str) -> float:
    """A finite number from 0 up."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise SetupError(f"{flag} takes a number from 0 up, not {text!r}.")
    return value


def positive(flag: str, text: str) -> float:
    """A finite number above 0."""
    value = number(flag, text)
    if not value:
        raise SetupError(f"{flag} must be more than 0.")
    return value
