"""What one rendering of a template may cost: steps, seconds and characters, and the checks that charge for them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Any

MAX_STEPS = 500_000
"""Turns of loops and calls of macros, functions and methods."""
MAX_SECONDS = 1.0
"""Of processor time, so that a busy machine refuses nothing."""
MAX_LENGTH = 16 << 20
"""Characters (or items) of one value; a request body is smaller."""
MAX_TOTAL = 256 << 20
"""Characters and items of all values made by operators and calls together."""
MAX_EXPONENT_BITS = 4096
CLOCK_EVERY = 512
_WIDE_FORMAT = re.compile(r"%[^a-zA-Z%]*(?:\d{4}|\*)|\{[^{}]*:[^{}]*(?:\d{4}|\{)")
"""A format that pads to a thousand characters or takes its width from an argument."""


class TemplateTooExpensive(Exception):
    """The budget is used up; says of what."""


class Budget:
    """What one rendering may still do."""

    def __init__(self) -> None:
        self.steps = 0
        self.total = 0
        self.deadline = time.thread_time() + MAX_SECONDS

    def step(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS or (self.steps % CLOCK_EVERY == 0 and time.thread_time() > self.deadline):
            raise TemplateTooExpensive("time")

    def charge(self, length: int) -> None:
        """Before (or after) a value of this length is made."""
        self.total += length
        if length > MAX_LENGTH or self.total > MAX_TOTAL:
            raise TemplateTooExpensive("memory")


_current: ContextVar[Budget] = ContextVar("budget of the rendering")


@contextmanager
def budget() -> Iterator[Budget]:
    """Everything inside spends one fresh budget."""
    token = _current.set(Budget())
    try:
        yield _current.get()
    except MemoryError as error:
        raise TemplateTooExpensive("memory") from error
    finally:
        _current.reset(token)


def step() -> None:
    _current.get().step()


def charge(length: int) -> None:
    _current.get().charge(length)


def counted(items: Iterable[Any]) -> Iterator[Any]:
    """A loop's items, each of them a step."""
    spent = _current.get()
    for item in items:
        spent.step()
        yield item


def joined(*parts: Any) -> str:
    """Jinja's ``~``."""
    texts = [str(part) for part in parts]
    charge(sum(map(len, texts)))
    return "".join(texts)


def counted_range(*bounds: int) -> range:
    """``range``, paid for at once: it may be turned into a list."""
    numbers = range(*bounds)
    charge(len(numbers))
    return numbers


def check_operator(operator: str, left: Any, right: Any) -> None:
    """Refuse what would be too large before it is computed."""
    if operator == "+" and isinstance(left, Sized) and isinstance(right, Sized):
        charge(len(left) + len(right))
    elif operator == "*":
        for value, times in ((left, right), (right, left)):
            if isinstance(value, Sized) and isinstance(times, int):
                charge(len(value) * max(times, 0))
    elif operator == "**" and isinstance(left, int) and isinstance(right, int):
        if left.bit_length() * right > MAX_EXPONENT_BITS:
            raise TemplateTooExpensive("memory")
    elif operator == "%" and isinstance(left, str):
        check_format(left, right if isinstance(right, tuple) else (right,))


def check_format(layout: str, arguments: Iterable[Any]) -> None:
    """A format string of either kind may neither pad far nor repeat much."""
    if _WIDE_FORMAT.search(layout):
        raise TemplateTooExpensive("memory")
    longest = max((len(str(value)) for value in arguments), default=0)
    charge(len(layout) + (layout.count("%") + layout.count("{")) * longest)


def check_replace(text: str, old: str, new: str) -> None:
    charge(len(text) + (text.count(old) if old else len(text) + 1) * max(len(new) - len(old), 0))


def check_padding(text: str, width: int) -> None:
    """For each line may get ``width`` characters."""
    charge(len(text) + (text.count("\n") + 1) * max(width, 0))


def check_method(text: str, method: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """Before a method of ``text`` that can make a long string from short ones; gives the arguments to call it with."""
    if method == "replace" and len(args) >= 2:
        check_replace(text, *args[:2])
    elif method == "join" and args:
        args = (list(args[0]),)
        charge(len(text) * len(args[0]))
    elif method in ("center", "ljust", "rjust", "zfill") and args:
        check_padding("", args[0])
    elif method == "expandtabs":
        charge(len(text) + text.count("\t") * max(chain(args, named.values()), default=8))
    elif method in ("format", "format_map"):
        check_format(text, chain(args, named.values()))
    return args
