"""Compressed rows: what a layer keeps of older tokens, pooled by a softmax over each number of a window by itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from training.fused import fused
from training.tensors import Angles, linear, rms_norm, rotate


def compressed_rows(x: Tensor, module: Any, angles: Angles) -> Tensor:
    """``x`` [B, S, hidden] to [B, T, D] in its type; ``module`` is a compressor or an indexer.

    Where it projects to twice its width, a window is pooled together with the one before it: the first half of what
    the older window's tokens project to, the second half of the newer one's.
    """
    ratio, width = module.compress_rate, module.kv_norm.weight.shape[0]
    batch, count = x.shape[0], x.shape[1] // ratio
    used = x[:, : count * ratio]
    kv = linear(used, module.kv_proj).view(batch, count, ratio, -1)
    gate = linear(used, module.gate_proj).view(batch, count, ratio, -1)
    rows = rms_norm(pooled(kv, gate, module.position_bias, width), module.kv_norm)
    turned = rotate(rows.flatten(0, 1), *angles.at(torch.arange(count) * ratio, batch))
    return turned.view(rows.shape).to(x.dtype)


@fused
def pooled(kv: Tensor, gate: Tensor, bias: Tensor, width: int) -> Tensor:
    """Windows [B, T, ratio, width or 2 * width] to [B, T, width], in float32."""
    kv, gate = kv.float(), gate.float() + bias
    if kv.shape[-1] > width:
        kv = torch.cat([_shifted(kv[..., :width], 0.0), kv[..., width:]], 2)
        gate = torch.cat([_shifted(gate[..., :width], float("-inf")), gate[..., width:]], 2)
    return (kv * gate.softmax(2)).sum(2)


def _shifted(values: Tensor, first: float) -> Tensor:
    """Each window's values at the place of the next window; ``first`` fills the first one's."""
    return torch.cat([torch.full_like(values[:, :1], first), values[:, :-1]], 1)
