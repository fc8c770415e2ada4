"""Attention in which one latent row is key and value of all heads, with a sink that takes part of the mass."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from isotherm.kernels.layouts import Rows
from isotherm.kernels.reference.rotary import rotate_last
from isotherm.kernels.reference.wide import wide


@dataclass(frozen=True, slots=True)
class Seen:
    """What each of T queries sees.

    Of the window store: ``recents`` rows of page ``pages``, from row ``firsts`` on and around its end; int64 [T] each.
    Of the store of compressed rows: the first ``counts`` int64 [T] rows of the sequence whose pages are row ``of``
    int64 [T] of ``tables`` int64 [S, B]; or, where ``chosen`` int32 [T, K] is given, the rows that its first
    ``counts`` entries name.
    """

    pages: Tensor
    firsts: Tensor
    recents: Tensor
    tables: Tensor
    of: Tensor
    counts: Tensor
    chosen: Tensor | None


TOGETHER = 32
"""Queries whose rows are gathered at once: they are copies, which take memory."""


def attend(
    query: Tensor, window: Rows, seen: Seen, rows: Rows, sink: Tensor, scale: float, cos: Tensor, sin: Tensor
) -> Tensor:
    """Every query [T, H, D] over what it sees, its output's last channels rotated back: ``wide`` [T, H, D].

    p = exp(scale q.k) / (sum of exp(scale q.k) + exp(sink)) with sink float32 [H]; a row is key and value.
    """
    query = wide(query)
    out = torch.empty_like(query)
    for first in range(0, len(query), TOGETHER):
        part = slice(first, first + TOGETHER)
        keys, there = _gather(window, rows, seen, part)
        keys = keys.to(query.dtype)
        scores = torch.einsum("thd,tnd->thn", query[part], keys) * scale
        scores = scores.masked_fill(~there[:, None], float("-inf"))
        sinks = sink[None, :, None].expand(len(scores), -1, 1)
        shares = torch.cat((scores, sinks), dim=2).softmax(-1)[..., :-1]
        out[part] = torch.einsum("thn,tnd->thd", shares, keys)
    return rotate_last(out, cos, sin, back=True)


def _gather(window: Rows, rows: Rows, seen: Seen, part: slice) -> tuple[Tensor, Tensor]:
    """The rows of some queries [t, n, D], filled up with others, and which of them count: bool [t, n]."""
    recents, counts = seen.recents[part, None], seen.counts[part, None]
    recent = torch.arange(int(recents.max()), device=recents.device)[None]
    at = (seen.firsts[part, None] + recent) % window.per_page
    keys = [window.read(seen.pages[part, None].expand(at.shape).flatten(), at.flatten()).view(*at.shape, -1)]
    there = [recent < recents]
    if most := int(counts.max()):
        index = torch.arange(most, device=counts.device)[None]
        there.append(index < counts)
        chosen = index.expand(len(counts), -1) if seen.chosen is None else seen.chosen[part, :most].long()
        chosen = chosen.where(there[1], 0)
        page = seen.tables[seen.of[part, None], chosen // rows.per_page]
        keys.append(rows.read(page.flatten(), (chosen % rows.per_page).flatten()).view(*chosen.shape, -1))
    return torch.cat(keys, dim=1), torch.cat(there, dim=1)
