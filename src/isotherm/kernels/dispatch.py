"""The one place that chooses which twin of each operation runs, and can say so."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from isotherm.base.errors import SetupError
from isotherm.kernels.layouts import Rows
from isotherm.kernels.reference import compress, experts, hyper, latent_attention, rotary
from isotherm.kernels.reference import ops as reference
from isotherm.kernels.reference.latent_attention import Seen

LANES = 16
STOCK_ATTEND, STOCK_INDEX = VARIANTS = ("stock-attend", "stock-index")
"""What ``select_latent`` can put in a fast operation's place; see ``cpu.stock``."""


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


class Turn(Protocol):
    """See ``reference.rotary.turn``."""

    def __call__(
        self, x: Tensor, cos: Tensor, sin: Tensor, eps: float | None = None, weight: Tensor | None = None
    ) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class LatentOps:
    """The operations of DeepSeek-V4; signatures and shapes are those of ``reference`` and of ``layouts.Rows``."""

    name: str
    read: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, int, float, float], tuple[Tensor, Tensor, Tensor]]
    expand: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
    end: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, float, float], Tensor]
    norm: Callable[[Tensor, Tensor, float], Tensor]
    turn: Turn
    write_rows: Callable[[Rows, Tensor, Tensor, Tensor], None]
    read_rows: Callable[[Rows, Tensor, Tensor], Tensor]
    compress_rows: Callable[[Tensor, Tensor, Tensor, float, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Rows], None]
    choose: Callable[[Tensor, Tensor, Rows, Tensor, Tensor, Tensor, int], Tensor]
    attend: Callable[[Tensor, Rows, Seen, Rows, Tensor, float, Tensor, Tensor], Tensor]
    route: Callable[[Tensor, Tensor | None, Tensor | None, int, float], tuple[Tensor, Tensor]]
    mix: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, float], Tensor]


LATENT_REFERENCE = LatentOps(
    "reference",
    hyper.read,
    hyper.expand,
    hyper.end,
    rotary.norm,
    rotary.turn,
    Rows.write,
    Rows.read,
    compress.compress_rows,
    compress.choose,
    latent_attention.attend,
    experts.route,
    experts.mix,
)


def select_latent(device: torch.device, *widths: int, variants: Collection[str] = (), index_rows: int = 0) -> LatentOps:
    """The fastest operations for a device; the compiled ones need ``widths`` that fill whole vectors.

    ``variants`` names slower ones to compare with, out of ``VARIANTS``; ``stock-index`` scores ``index_rows`` rows
    however few a sequence has. Raises SetupError for a variant that does not exist, here or at all.
    """
    if unknown := sorted(set(variants) - set(VARIANTS)):
        raise SetupError(f"No kernel variant is called {unknown[0]!r}. There are {', '.join(VARIANTS)}.")
    if device.type != "cpu" or sys.byteorder != "little" or any(width % LANES for width in widths):
        if variants:
            raise SetupError(
                f"The kernel variants {', '.join(sorted(variants))} are compiled for CPUs and widths that are multiples"
                f" of {LANES}; this is {device.type} with {', '.join(map(str, widths))}. Leave the setting out."
            )
        return LATENT_REFERENCE
    return _with_variants(_latent_cpu(), variants, index_rows)


def _with_variants(ops: LatentOps, variants: Collection[str], index_rows: int) -> LatentOps:
    if not variants:
        return ops
    from isotherm.kernels.cpu import stock  # noqa: PLC0415 (numba loads only where it is used)

    name = ", ".join((ops.name, *sorted(variants)))
    attend = stock.attend if STOCK_ATTEND in variants else ops.attend
    choose = stock.choose_of(index_rows) if STOCK_INDEX in variants else ops.choose
    return replace(ops, name=name, attend=attend, choose=choose)


def _latent_cpu() -> LatentOps:
    # numba loads only where it is used.
    from isotherm.kernels.cpu import (  # noqa: PLC0415
        amx,
        choose,
        compress,
        experts,
        hyper,
        latent_attention,
        matrix_attention,
        move_rows,
        turn,
    )  # fmt: skip

    return LatentOps(
        "cpu-numba",
        hyper.read,
        hyper.expand,
        hyper.end,
        turn.norm,
        turn.turn,
        move_rows.write_rows,
        move_rows.read_rows,
        compress.compress_rows,
        choose.choose,
        matrix_attention.attend if amx.has_amx() else latent_attention.attend,
        experts.route,
        experts.mix,
    )


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
