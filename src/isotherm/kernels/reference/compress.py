"""Pooling of tokens into compressed rows, and the choice among these rows."""

from __future__ import annotations

import torch
from torch import Tensor


def pool_windows(values: Tensor, gates: Tensor) -> Tensor:
    """Softmax over slots, channel by channel: values and gates float32 [n, slots, D] -> [n, D].

    A slot that does not exist has the gate -inf and any finite value.
    """
    return (gates.softmax(1) * values).sum(1)


def overlapping(previous: Tensor, windows: Tensor) -> Tensor:
    """Slots of windows that overlap: windows [n, r, 2 D], previous [r, D] -> [n, 2 r, D].

    A token's first half belongs to the window after its own, its second half to its own. ``previous`` holds the first
    halves of the window before the first one.
    """
    width = windows.shape[2] // 2
    first = torch.cat((previous[None], windows[:-1, :, :width]))
    return torch.cat((first, windows[:, :, width:]), dim=1)


def index_scores(queries: Tensor, weights: Tensor, keys: Tensor) -> Tensor:
    """queries [L, H, D], weights [L, H], keys [n, D] -> sum over heads of weight * ReLU(q . k), float32 [L, n]."""
    products = torch.einsum("lhd,nd->lhn", queries.float(), keys.float()).relu_()
    return torch.einsum("lh,lhn->ln", weights.float(), products)


def top_rows(scores: Tensor, visible: Tensor, count: int) -> Tensor:
    """The ``count`` best visible rows of each query as a mask [L, n]; ties go to the lower index.

    scores [L, n], visible bool [L, n]. Where fewer are visible, all of them.
    """
    if scores.shape[1] <= count:
        return visible
    order = scores.masked_fill(~visible, float("-inf")).sort(dim=-1, descending=True, stable=True).indices
    chosen = torch.zeros_like(visible).scatter_(1, order[:, :count], True)
    return chosen & visible
