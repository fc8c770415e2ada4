"""Routing to experts, and the experts' clamped SwiGLU."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from isotherm.kernels.reference.wide import wide


def route(logits: Tensor, bias: Tensor | None, ids: Tensor | None, active: int, scale: float) -> tuple[Tensor, Tensor]:
    """Which experts a row goes to and with what weights: logits float32 [T, E] -> int64 [T, K], float32 [T, K].

    Affinities are sqrt(softplus(logits)); ``bias`` [E] is added for the choice alone, ties go to the lower id. ``ids``
    [T, K] are given where tokens choose. Weights are the affinities of the chosen, their sum made ``scale``.
    """
    affinity = F.softplus(logits).sqrt()
    if ids is None:
        assert bias is not None, "rows are routed by ids or by score"
        ids = (affinity + bias).sort(dim=-1, descending=True, stable=True).indices[:, :active]
    chosen = affinity.gather(1, ids)
    return ids, chosen / chosen.sum(-1, keepdim=True) * scale


def clamped_swiglu(gate: Tensor, up: Tensor, limit: float) -> Tensor:
    """silu(min(gate, limit)) * clamp(up, -limit, limit) in float32; the gate has no lower bound."""
    return F.silu(wide(gate).clamp(max=limit)) * wide(up).clamp(-limit, limit)


def mix(x: Tensor, ids: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor, limit: float) -> Tensor:
    """The chosen experts' outputs by their weights, and the shared expert's: x [T, C] -> float32 [T, C].

    gate_up [E + 1, 2 I, C], down [E + 1, C, I]; the last is the shared expert. Routing weights multiply the inner
    numbers, before the second product.
    """
    out = _expert(x, None, gate_up[-1], down[-1], limit)
    for expert in sorted(set(ids.flatten().tolist())):
        rows, place = (ids == expert).nonzero(as_tuple=True)
        out.index_add_(0, rows, _expert(x[rows], weights[rows, place], gate_up[expert], down[expert], limit))
    return out


def _expert(x: Tensor, weight: Tensor | None, gate_up: Tensor, down: Tensor, limit: float) -> Tensor:
    gate, up = F.linear(x, gate_up).chunk(2, dim=-1)
    hidden = clamped_swiglu(gate, up, limit)
    if weight is not None:
        hidden = hidden * weight[:, None]
    return wide(F.linear(hidden.to(x.dtype), down))
