"""Prefill attention on the CPU: one flash pass over the past, one over the chunk itself, joined by their masses.

A mask over the whole context would cost memory and time that grow with it; the past needs none (every row sees all
of it) and the chunk is plainly causal. The joint softmax follows from both log-sum-exps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from isotherm.kernels.reference.ops import gather_kv


def _flash(query: Tensor, keys: Tensor, values: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    out, mass = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query[None], keys[None], values[None], 0.0, causal, scale=scale
    )
    return out[0], mass[0]


def attend_prefill(query: Tensor, start: int, blocks: Tensor, k_cache: Tensor, v_cache: Tensor, scale: float) -> Tensor:
    """Twin of ``reference.ops.attend_prefill``."""
    rows, heads, size = query.shape
    keys, values = gather_kv(blocks, start + rows, k_cache, v_cache)
    groups = keys.shape[0]
    query = query.to(v_cache.dtype).transpose(0, 1).contiguous()
    own_keys, own_values = (t[:, start:].repeat_interleave(heads // groups, dim=0) for t in (keys, values))
    own, own_mass = _flash(query, own_keys, own_values, True, scale)
    if start == 0:
        return own.transpose(0, 1)
    # All query heads of a group attend to the same past: seen as more rows of one head, nothing is repeated.
    grouped = query.view(groups, -1, size)
    past, past_mass = _flash(grouped, keys[:, :start], values[:, :start], False, scale)
    past, past_mass = past.reshape(heads, rows, size), past_mass.reshape(heads, rows)
    share = torch.sigmoid(past_mass - own_mass)[..., None]
    return torch.lerp(own.float(), past.float(), share).to(v_cache.dtype).transpose(0, 1)
