"""Pooling of tokens into compressed rows, and the choice among these rows."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from isotherm.kernels.layouts import Rows
from isotherm.kernels.reference.rotary import turn
from isotherm.kernels.reference.wide import wide


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


def compress_span(fresh: Tensor, ape: Tensor, state: Tensor, start: int) -> Tensor:
    """Feed tokens at positions ``start`` and up of one sequence; windows that become full are pooled: [n, d].

    fresh float32 [L, 2 o d], values then gates; ape [r, o d], added to the gates here. state [o r, 2 o d], written in
    place: ``r`` rows for tokens of the window that is being filled, and before them, where windows overlap (o = 2), as
    many of the last full one, of which the first half of the channels is read.
    """
    ratio, width = ape.shape
    overlaps = len(state) > ratio
    fresh = fresh.clone()
    fresh[:, width:] += ape[torch.arange(start, start + len(fresh), device=fresh.device) % ratio]
    filling, held = state[-ratio:], start % ratio
    tokens = torch.cat((filling[:held], fresh))
    full = len(tokens) // ratio
    pooled = fresh.new_empty(0, width // 2 if overlaps else width)
    if full:
        windows = tokens[: full * ratio].view(full, ratio, 2 * width)
        pooled = _pool(windows, state, ratio, first=start // ratio == 0, overlaps=overlaps)
        if overlaps:
            state[:ratio] = windows[-1]
    rest = tokens[full * ratio :]
    filling[: len(rest)] = rest
    return pooled


def _pool(windows: Tensor, state: Tensor, ratio: int, *, first: bool, overlaps: bool) -> Tensor:
    width = windows.shape[2] // 2
    values, gates = windows[..., :width], windows[..., width:]
    if overlaps:
        half = width // 2
        previous_values, previous_gates = state[:ratio, :half], state[:ratio, width : width + half]
        if first:
            previous_values = torch.zeros_like(previous_values)
            previous_gates = torch.full_like(previous_gates, float("-inf"))
        values, gates = overlapping(previous_values, values), overlapping(previous_gates, gates)
    return pool_windows(values, gates)


def compress_rows(
    fresh: Tensor, ape: Tensor, norm: Tensor, eps: float, cos: Tensor, sin: Tensor, states: Tensor, slots: Tensor,
    positions: Tensor, tables: Tensor, rows: Rows,
) -> None:  # fmt: skip
    """Feed one token of each of T sequences; a window that becomes full leaves a row in ``rows``.

    fresh float32 [T, 2 o d]; norm [d]; cos and sin [T, R / 2] of each window's first position; states [slots, o r,
    2 o d] float32, that of sequence t in slot ``slots[t]``; positions and slots int64 [T]; tables int64 [T, B].
    """
    ratio = ape.shape[0]
    for t, position in enumerate(positions.tolist()):
        pooled = compress_span(fresh[t : t + 1], ape, states[slots[t]], position)
        if len(pooled):
            row = turn(F.rms_norm(pooled, norm.shape, norm, eps), cos[t : t + 1], sin[t : t + 1])
            index = position // ratio
            rows.write(tables[t, index // rows.per_page][None], torch.tensor([index % rows.per_page]), row)


def index_scores(queries: Tensor, weights: Tensor, keys: Tensor) -> Tensor:
    """queries [L, H, D], weights [L, H], keys [n, D] -> sum over heads of weight * ReLU(q . k), float32 [L, n]."""
    products = torch.einsum("lhd,nd->lhn", wide(queries), keys.to(wide(queries).dtype)).relu_()
    return torch.einsum("lh,lhn->ln", wide(weights), products)


def choose(queries: Tensor, weights: Tensor, keys: Rows, tables: Tensor, of: Tensor, counts: Tensor, k: int) -> Tensor:
    """The k best rows of each query, of the first ``counts`` int64 [T] of its sequence: int32 [T, k], ascending.

    queries float32 [T, H, D], weights [T, H]; the pages of query t are row ``of[t]`` of tables int64 [S, B]. Of equal
    scores the lower index wins. With no more than k rows, all of them; entries beyond their number mean nothing.
    """
    out = torch.zeros(len(queries), k, dtype=torch.int32, device=queries.device)
    for sequence in sorted(set(of.tolist())):
        mine = (of == sequence).nonzero()[:, 0]
        most = int(counts[mine].max())
        index = torch.arange(most, device=queries.device)
        read = keys.read(tables[sequence, index // keys.per_page], index % keys.per_page)
        scores = index_scores(queries[mine], weights[mine], read)
        scores.masked_fill_(index >= counts[mine, None], float("-inf"))
        best = scores.sort(dim=-1, descending=True, stable=True).indices[:, :k]
        # Rows that a query does not see sort behind all that it sees.
        best = best.where(best < counts[mine, None], most).sort(dim=-1).values
        out[mine, : best.shape[1]] = best.to(torch.int32)
    return out
