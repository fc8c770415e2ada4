"""Functions of tensors that the compiler may fuse: most of a step on a CPU is reading and writing between such.

Compiling takes minutes for all sizes of batches together, so short runs and tests go without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")

SIZES = 512
"""Of one function: each size of batch and of row is compiled by itself."""


class _Switch:
    on = False


def compile_from_now_on() -> None:
    """Needs a C++ compiler."""
    torch._dynamo.config.recompile_limit = SIZES
    _Switch.on = True


@contextmanager
def not_compiled() -> Iterator[None]:
    """For sizes that come once: compiling them takes longer than computing them."""
    before, _Switch.on = _Switch.on, False
    try:
        yield
    finally:
        _Switch.on = before


def fused(function: Callable[P, R]) -> Callable[P, R]:
    """``function`` as it is, or compiled for the sizes that it is given."""

    @cache
    def compiled() -> Callable[P, R]:
        made: Callable[P, R] = torch.compile(function, dynamic=False)
        return made

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return compiled()(*args, **kwargs) if _Switch.on else function(*args, **kwargs)

    return call
