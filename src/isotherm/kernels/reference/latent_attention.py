"""Attention in which one latent row is key and value of all heads, with a sink that takes part of the mass."""

from __future__ import annotations

import torch
from torch import Tensor


def attend_latent(query: Tensor, rows: Tensor, seen: Tensor, sink: Tensor, scale: float) -> Tensor:
    """query [L, H, D], rows [n, D], seen bool [L, n], sink float32 [H] -> float32 [L, H, D].

    p = exp(scale q.k) / (sum of exp(scale q.k) over seen rows + exp(sink)). Every query sees a row.
    """
    scores = torch.einsum("lhd,nd->lhn", query.float(), rows.float()) * scale
    scores = scores.masked_fill(~seen[:, None], float("-inf"))
    top = torch.maximum(scores.amax(-1), sink)[..., None]
    shares = (scores - top).exp()
    mass = shares.sum(-1, keepdim=True) + (sink[None, :, None] - top).exp()
    return torch.einsum("lhn,nd->lhd", shares / mass, rows.float())
