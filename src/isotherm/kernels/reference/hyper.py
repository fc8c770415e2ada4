"""Hyper-connections: several residual streams, mixed anew before and after every sublayer (Xie et al. 2025, mHC)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from isotherm.kernels.reference.wide import wide


def mix(
    streams: Tensor, fn: Tensor, base: Tensor, scale: Tensor, iterations: int, eps: float, norm_eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """How a sublayer reads and writes the streams of each row.

    streams [T, S, C]; fn float32 [(2 + S) S, S C], base [(2 + S) S], scale [3]: rows 0 to S - 1 make ``pre``, the next
    S ``post``, the rest ``comb`` row by row. Returns float32 pre [T, S], post [T, S], comb [T, S, S], the last one
    doubly stochastic up to ``eps`` (Sinkhorn & Knopp 1967; the last step is over columns).
    """
    count = streams.shape[1]
    m = F.linear(normed(streams, norm_eps), fn)
    pre = torch.sigmoid(m[:, :count] * scale[0] + base[:count]) + eps
    post = 2 * torch.sigmoid(m[:, count : 2 * count] * scale[1] + base[count : 2 * count])
    comb = (m[:, 2 * count :] * scale[2] + base[2 * count :]).view(-1, count, count).softmax(-1) + eps
    comb = comb / (comb.sum(1, keepdim=True) + eps)
    for _ in range(iterations - 1):
        comb = comb / (comb.sum(2, keepdim=True) + eps)
        comb = comb / (comb.sum(1, keepdim=True) + eps)
    return pre, post, comb


def read(
    streams: Tensor, fn: Tensor, base: Tensor, scale: Tensor, norm: Tensor, iterations: int, eps: float, norm_eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """A sublayer's input float32 [T, C], the streams collapsed and normalised by ``norm`` [C]; ``mix``'s post, comb."""
    pre, post, comb = mix(streams, fn, base, scale, iterations, eps, norm_eps)
    return F.rms_norm(collapse(streams, pre), norm.shape, norm, norm_eps), post, comb


def normed(streams: Tensor, norm_eps: float) -> Tensor:
    """All streams of a row as one vector of root mean square 1: float32 [T, S C]."""
    flat = wide(streams.flatten(1))
    return F.rms_norm(flat, flat.shape[1:], None, norm_eps)


def collapse(streams: Tensor, pre: Tensor) -> Tensor:
    """The streams weighted by ``pre``, [T, C] in float32."""
    return torch.einsum("ts,tsc->tc", pre, wide(streams))


def expand(output: Tensor, streams: Tensor, post: Tensor, comb: Tensor) -> Tensor:
    """The streams after a sublayer: stream k gains post_k output + sum over j of comb_jk stream_j."""
    return post[..., None] * wide(output)[:, None] + torch.einsum("tjk,tjc->tkc", comb, wide(streams))


def end(streams: Tensor, fn: Tensor, base: Tensor, scale: Tensor, norm: Tensor, eps: float, norm_eps: float) -> Tensor:
    """The streams collapsed and normalised for the head: fn [S, S C], base [S], scale [1] -> float32 [T, C]."""
    pre = torch.sigmoid(F.linear(normed(streams, norm_eps), fn) * scale + base) + eps
    return F.rms_norm(collapse(streams, pre), norm.shape, norm, norm_eps)
