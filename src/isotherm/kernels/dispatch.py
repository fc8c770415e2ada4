"""The one place that chooses which twin of each operation runs, and can say so."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from isotherm.kernels.reference import hyper, rotary
from isotherm.kernels.reference import ops as reference

LANES = 16


@dataclass(frozen=True, slots=True)
class Ops:
    """The operations of a Llama-type decoder; signatures and shapes are those of ``reference.ops``."""

    name: str
    add_rms_norm: Callable[[Tensor, Tensor | None, Tensor, float, torch.dtype], Tensor]
    silu_mul: Callable[[Tensor], Tensor]
    rotate_and_store: Callable[[Tensor, int, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
    attend_prefill: Callable[[Tensor, int, Tensor, Tensor, Tensor, float], Tensor]
    attend_decode: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, float], Tensor]


REFERENCE = Ops(
    "reference",
    reference.add_rms_norm,
    reference.silu_mul,
    reference.rotate_and_store,
    reference.attend_prefill,
    reference.attend_decode,
)


def select(device: torch.device, dtype: torch.dtype, *widths: int) -> Ops:
    """The fastest operations for tensors of ``dtype`` on ``device`` whose row widths are ``widths``.

    The compiled CPU twins need float32 or bfloat16, little-endian, and widths that fill whole vectors.
    """
    compiled = (
        device.type == "cpu"
        and dtype in (torch.float32, torch.bfloat16)
        and sys.byteorder == "little"
        and all(width % LANES == 0 for width in widths)
    )
    return _cpu() if compiled else REFERENCE


class Rotate(Protocol):
    """See ``reference.rotary.rotate_last``."""

    def __call__(self, x: Tensor, cos: Tensor, sin: Tensor, *, back: bool = False) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class LatentOps:
    """The operations of DeepSeek-V4 that have twins; signatures and shapes are those of ``reference``."""

    name: str
    mix: Callable[[Tensor, Tensor, Tensor, Tensor, int, float, float], tuple[Tensor, Tensor, Tensor]]
    collapse: Callable[[Tensor, Tensor], Tensor]
    expand: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
    rotate_last: Rotate


LATENT_REFERENCE = LatentOps("reference", hyper.mix, hyper.collapse, hyper.expand, rotary.rotate_last)


def select_latent(device: torch.device) -> LatentOps:
    """The fastest operations for a device."""
    if device.type != "cpu" or sys.byteorder != "little":
        return LATENT_REFERENCE
    from isotherm.kernels.cpu import hyper as streams  # noqa: PLC0415 (numba loads only where it is used)
    from isotherm.kernels.cpu import rotary as turns  # noqa: PLC0415

    return LatentOps("cpu-numba", streams.mix, streams.collapse, streams.expand, turns.rotate_last)


def _cpu() -> Ops:
    from isotherm.kernels.cpu import attention, prefill, rows  # noqa: PLC0415 (numba loads only where it is used)

    return Ops(
        "cpu-numba",
        rows.add_rms_norm,
        rows.silu_mul,
        rows.rotate_and_store,
        prefill.attend_prefill,
        attention.attend_decode,
    )
