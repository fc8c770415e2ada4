"""The small operations that every part of the forward pass uses.

What is compiled gets tokens of all sequences in one dimension: their number is the same for every length of sequence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from training.fused import fused


class Angles(NamedTuple):
    """Cosines and sines of positions, [S, rotated / 2] each."""

    cos: Tensor
    sin: Tensor

    def at(self, positions: Tensor, batch: int) -> Angles:
        """Those of some positions, once for each of ``batch`` sequences: [B * positions, rotated / 2]."""
        return Angles(self.cos[positions].repeat(batch, 1), self.sin[positions].repeat(batch, 1))


def linear(x: Tensor, module: Any) -> Tensor:
    """In the type of ``x``; the weight, kept in float32, is rounded to it."""
    return F.linear(x, module.weight.to(x.dtype))


def rms_norm(x: Tensor, module: Any) -> Tensor:
    """In float32."""
    return _scaled_norm(x.reshape(-1, x.shape[-1]), module.weight, module.variance_epsilon).view(x.shape)


@fused
def _scaled_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


@fused
def unscaled_norm(x: Tensor, eps: float) -> Tensor:
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


@fused
def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the last numbers of ``x`` [n, ..., D] in neighbouring pairs, as many as there are angles [n, ..., pairs]."""
    width = 2 * cos.shape[-1]
    plain, turned = x[..., :-width], x[..., -width:]
    even, odd = turned[..., 0::2], turned[..., 1::2]
    pairs = torch.stack([even * cos - odd * sin, odd * cos + even * sin], -1)
    return torch.cat([plain, pairs.flatten(-2)], -1)
