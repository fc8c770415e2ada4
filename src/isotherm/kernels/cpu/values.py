"""Scalar access that writes float32 and bfloat16 arrays alike."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import overload

from isotherm.kernels.cpu.bits import narrow


def put(array: Any, index: int, value: float) -> None:
    """Write a float32 to a float32 or a bfloat16 (uint16) array; compiled code only."""
    raise TypeError(f"put is compiled code, called with {array!r}, {index}, {value}")


@overload(put, strict=False)
def _put(array: Any, index: Any, value: Any) -> Any:
    if array.dtype == types.uint16:

        def narrowed(array: Any, index: int, value: float) -> None:
            array[index] = narrow(value)

        return narrowed

    def plain(array: Any, index: int, value: float) -> None:
        array[index] = value

    return plain
