"""Rotary positions over neighbouring channels (Su et al. 2021), on the last channels of a vector."""

from __future__ import annotations

import torch
from torch import Tensor


def rotate_last(x: Tensor, cos: Tensor, sin: Tensor, *, back: bool = False) -> Tensor:
    """Rotate the last R channels of x [T, ..., D] by cos and sin float32 [T, R / 2]; ``back`` undoes it.

    Channels 2 i and 2 i + 1 of the rotated part form pair i.
    """
    width = 2 * cos.shape[-1]
    shape = (cos.shape[0], *(1 for _ in x.shape[1:-1]), cos.shape[-1])
    c, s = cos.view(shape), sin.view(shape)
    if back:
        s = -s
    even, odd = x[..., -width::2].float(), x[..., -width + 1 :: 2].float()
    turned = torch.stack((even * c - odd * s, odd * c + even * s), dim=-1).flatten(-2)
    return torch.cat((x[..., :-width], turned.to(x.dtype)), dim=-1)
