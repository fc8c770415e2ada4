"""Reference operations of a Llama-type decoder.

Shapes: T rows of a forward, D decode rows among them, H query heads, G key/value heads, E head size,
B tokens a block. Inside a block keys are stored transposed ([E, B]) so that a decode kernel can treat neighbouring
positions as vector lanes, and values [B, E]. bfloat16 numbers that are summed together lie in pairs, as the processors'
bfloat16 products want them, so keys are [N, G, E/P, B, P] and values [N, G, B/P, E, P] with P = 2 for bfloat16, else 1.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def add_rms_norm(x: Tensor, y: Tensor | None, weight: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    """x += y, then RMSNorm (Zhang and Sennrich 2019, eq. 4) of the sum, cast to ``dtype``.

    x float32 [T, C], the residual stream, is updated in place; y [T, C] of any float dtype or None; weight float32 [C].
    """
    if y is not None:
        x += y
    return F.rms_norm(x, (x.shape[-1],), weight, eps).to(dtype)


def silu_mul(gate_up: Tensor) -> Tensor:
    """SwiGLU (Shazeer 2020): [T, 2I] holding gate then up -> silu(gate) * up, [T, I], same dtype."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding, halves convention: x [T, heads, E] of any float dtype, cos and sin [T, E/2] float32."""
    first, second = x.float().chunk(2, dim=-1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def rotate_and_store(
    qkv: Tensor, heads: int, cos: Tensor, sin: Tensor, slots: Tensor, k_cache: Tensor, v_cache: Tensor
) -> Tensor:
    """Split rows [T, (H + 2G) E] into queries, keys and values; rotate; keep keys and values; return queries.

    Keys and values go to ``slots`` int64 [T] (block * B + offset) of the caches. The queries come back
    rotated, float32 [T, H, E].
    """
    _, groups, _, size, pair = k_cache.shape
    width = v_cache.shape[3]
    query, keys, values = torch.split(qkv.view(qkv.shape[0], -1, width), [heads, groups, groups], dim=1)
    block, offset = slots // size, slots % size
    k_cache[block, :, :, offset] = rotate(keys, cos, sin).to(k_cache.dtype).view(len(slots), groups, -1, pair)
    v_cache[block, :, offset // pair, :, offset % pair] = values.to(v_cache.dtype)
    return rotate(query, cos, sin)


def gather_kv(blocks: Tensor, length: int, k_cache: Tensor, v_cache: Tensor) -> tuple[Tensor, Tensor]:
    """The first ``length`` positions of the sequence that owns ``blocks``: keys and values [G, length, E]."""
    groups, size = v_cache.shape[1], v_cache.shape[3]
    # Of one block reshape can be a view with strided numbers, which flash attention takes for neighbours: copy it.
    keys = k_cache[blocks].permute(1, 0, 3, 2, 4).reshape(groups, -1, size).contiguous()
    values = v_cache[blocks].permute(1, 0, 2, 4, 3).reshape(groups, -1, size).contiguous()
    return keys[:, :length], values[:, :length]


def attend_prefill(query: Tensor, start: int, blocks: Tensor, k_cache: Tensor, v_cache: Tensor, scale: float) -> Tensor:
    """Causal attention of one sequence's chunk over its whole context, its own rows already stored.

    query float32 [L, H, E] at positions start..start+L; returns [L, H, E] in the cache's dtype.
    """
    rows, heads, _ = query.shape
    keys, values = gather_kv(blocks, start + rows, k_cache, v_cache)
    group = heads // keys.shape[0]
    keys, values = (t.float().repeat_interleave(group, dim=0) for t in (keys, values))
    positions = torch.arange(start + rows, device=query.device)
    visible = positions[None, :] <= positions[start:, None]
    out = F.scaled_dot_product_attention(query.transpose(0, 1), keys, values, attn_mask=visible, scale=scale)
    return out.transpose(0, 1).to(v_cache.dtype)


def attend_decode(
    query: Tensor, tables: Tensor, lengths: Tensor, k_cache: Tensor, v_cache: Tensor, scale: float
) -> Tensor:
    """Attention of one new token a sequence: query float32 [D, H, E], tables [D, blocks], lengths [D] -> [D, H, E].

    ``lengths`` counts the visible positions, the new token included (its key and value are stored).
    """
    size = k_cache.shape[3]
    out = torch.empty_like(query, dtype=v_cache.dtype)
    for row, length in enumerate(lengths.tolist()):
        blocks = tables[row, : -(-length // size)].long()
        out[row] = attend_prefill(query[row : row + 1], length - 1, blocks, k_cache, v_cache, scale)[0]
    return out
