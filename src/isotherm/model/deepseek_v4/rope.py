"""Rotary tables: plain for layers that only see their window, stretched for those that compress."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from isotherm.model.deepseek_v4.config import Attention, Yarn


def frequencies(dim: int, theta: float, yarn: Yarn | None) -> Tensor:
    """Radians a position for each of dim / 2 pairs, float32.

    Stretching (Peng et al. 2023): slow pairs turn ``factor`` times slower, fast ones are left, those between blend by
    how often they turn within the original context.
    """
    plain = theta ** -(torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    if yarn is None:
        return plain.float()

    def pair_that_turns(times: float) -> float:
        return dim * math.log(yarn.original_context / (2 * math.pi * times)) / (2 * math.log(theta))

    low = max(math.floor(pair_that_turns(yarn.beta_fast)), 0)
    high = min(math.ceil(pair_that_turns(yarn.beta_slow)), dim - 1)
    ramp = ((torch.arange(dim // 2, dtype=torch.float64) - low) / max(high - low, 1e-3)).clamp(0, 1)
    return (plain / yarn.factor * ramp + plain * (1 - ramp)).float()


Turn = tuple[Tensor, Tensor]
"""cos and sin float32 [T, R / 2] of T positions."""


class Rope:
    """Computes turns when asked: a table of 1M positions is never made."""

    def __init__(self, attention: Attention, device: torch.device) -> None:
        a = attention
        self._plain = frequencies(a.rope_dim, a.rope_theta, None).to(device)
        self._stretched = frequencies(a.rope_dim, a.compress_rope_theta, a.yarn).to(device)

    def at(self, positions: Tensor, *, compressed: bool) -> Turn:
        angles = positions.float()[:, None] * (self._stretched if compressed else self._plain)
        return angles.cos(), angles.sin()
