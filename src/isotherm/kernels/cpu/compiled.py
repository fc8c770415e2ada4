"""How kernels are compiled, and where the machine code is kept between starts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, cast

import numba
from numba.extending import intrinsic as _intrinsic
from numba.extending import overload as _overload

FASTMATH = {"contract", "reassoc", "nsz", "arcp"}
"""Sums may be re-ordered (fixed at compile time, so results repeat); infinities and NaN keep their meaning."""

Function = Callable[..., Any]


def _cache_folder() -> Path:
    """A folder for exactly these sources: numba itself notices a change only in the file of the outermost function."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for source in sorted(here.glob("*.py")):
        digest.update(source.read_bytes())
    root = Path(os.environ.get("ISOTHERM_CACHE") or Path.home() / ".cache" / "isotherm")
    return root / "kernels" / digest.hexdigest()[:16]


# Both must be settled before the first kernel is declared. OpenMP is the one layer that shares PyTorch's threads.
_config: Any = numba.config
_config.CACHE_DIR = str(_cache_folder())
_config.THREADING_LAYER = "omp"


intrinsic: Any = _intrinsic
"""Declares a function by the code it emits. Callers leave out its first parameter, which no type checker can know."""


def kernel(function: Function) -> Function:
    """Compile a function that runs on the calling thread, or inside a parallel one."""
    return cast(Function, numba.njit(fastmath=FASTMATH, error_model="numpy", cache=True)(function))


def inlined(function: Function) -> Function:
    """``kernel`` that becomes part of its caller: a call passes every field of every array through memory."""
    compiled = numba.njit(fastmath=FASTMATH, error_model="numpy", cache=True, forceinline=True)(function)
    return cast(Function, compiled)


def parallel(function: Function) -> Function:
    """Compile a function whose ``prange`` loops are shared among the threads."""
    return cast(Function, numba.njit(parallel=True, fastmath=FASTMATH, error_model="numpy", cache=True)(function))


def by_types(*, inline: bool = False) -> Callable[[Function], Function]:
    """Declares a function of compiled code: what it decorates is given the types of the arguments, and gives the body.

    Both have the function's parameters; ``inline`` makes it no call where it is used. Python cannot call it.
    """

    def declare(choose: Function) -> Function:
        @wraps(choose)
        def declared(*_: Any) -> Any:
            raise TypeError(f"{choose.__name__} exists in compiled code alone")

        _overload(declared, jit_options={"forceinline": inline})(choose)
        return declared

    return declare


def use_threads(wanted: int) -> None:
    """Set how many threads parallel kernels use, at most what numba started with (NUMBA_NUM_THREADS, or the cores)."""
    numba.set_num_threads(min(wanted, _config.NUMBA_NUM_THREADS))
