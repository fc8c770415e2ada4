"""Scalar access that reads and writes float32 and bfloat16 arrays alike."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import overload

from isotherm.kernels.cpu.bits import narrow, widen


def take(value: Any) -> float:
    """A number read from a float32 or a bfloat16 (uint16) array, as float32; compiled code only."""
    raise TypeError(f"take is compiled code, called with {value!r}")


def put(array: Any, index: int, value: float) -> None:
    """Write a float32 to a float32 or a bfloat16 (uint16) array; compiled code only."""
    raise TypeError(f"put is compiled code, called with {array!r}, {index}, {value}")


@overload(take, strict=False)
def _take(value: Any) -> Any:
    if value == types.uint16:
        return lambda value: widen(value)  # noqa: PLW0108 (numba compares parameter names)
    return lambda value: value


@overload(put, strict=False)
def _put(array: Any, index: Any, value: Any) -> Any:
    if array.dtype == types.uint16:

        def narrowed(array: Any, index: int, value: float) -> None:
            array[index] = narrow(value)

        return narrowed

    def plain(array: Any, index: int, value: float) -> None:
        array[index] = value

    return plain
