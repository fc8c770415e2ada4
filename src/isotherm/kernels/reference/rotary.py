"""Rotary positions over neighbouring channels (Su et al. 2021), on the last channels of a vector."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from isotherm.kernels.reference.wide import wide


def rotate_last(x: Tensor, cos: Tensor, sin: Tensor, *, back: bool = False) -> Tensor:
    """Rotate the last R channels of x [T, ..., D] by cos and sin float32 [T, R / 2]; ``back`` undoes it.

    Channels 2 i and 2 i + 1 of the rotated part form pair i.
    """
    width = 2 * cos.shape[-1]
    shape = (cos.shape[0], *(1 for _ in x.shape[1:-1]), cos.shape[-1])
    c, s = cos.view(shape), sin.view(shape)
    if back:
        s = -s
    even, odd = wide(x[..., -width::2]), wide(x[..., -width + 1 :: 2])
    turned = torch.stack((even * c - odd * s, odd * c + even * s), dim=-1).flatten(-2)
    return torch.cat((x[..., :-width], turned.to(x.dtype)), dim=-1)


def norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """Root mean square 1 over the last axis, times the weight: float32."""
    return F.rms_norm(wide(x), x.shape[-1:], weight, eps)


def turn(x: Tensor, cos: Tensor, sin: Tensor, eps: float | None = None, weight: Tensor | None = None) -> Tensor:
    """Vectors x [T, ..., D] to float32: normalised if there is an ``eps``, then their last channels rotated."""
    return rotate_last(wide(x) if eps is None else norm(x, weight, eps), cos, sin)
