"""Routing to experts, and the experts' clamped SwiGLU."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def scores(x: Tensor, gate: Tensor) -> Tensor:
    """sqrt(softplus(x W^T)) in float32: x [T, C], gate [E, C] -> [T, E]."""
    return F.softplus(F.linear(x.float(), gate.float())).sqrt()


def best_experts(affinity: Tensor, bias: Tensor, count: int) -> Tensor:
    """Ids [T, count] of the experts with the largest affinity + bias; ties go to the lower id."""
    order = (affinity + bias).sort(dim=-1, descending=True, stable=True).indices
    return order[:, :count]


def routing_weights(affinity: Tensor, ids: Tensor, scale: float) -> Tensor:
    """Affinities of the chosen experts, their sum made ``scale``: float32 [T, count]."""
    chosen = affinity.gather(1, ids)
    return chosen / chosen.sum(-1, keepdim=True) * scale


def clamped_swiglu(gate: Tensor, up: Tensor, limit: float) -> Tensor:
    """silu(min(gate, limit)) * clamp(up, -limit, limit) in float32; the gate has no lower bound."""
    return F.silu(gate.float().clamp(max=limit)) * up.float().clamp(-limit, limit)
