"""The forward pass as training needs it: transformers' weights, computed several times faster on a CPU.

Transformers scores all pairs of positions, builds each expert's batch by itself and runs in float32. Here a window's
queries see two windows of keys, all experts run as one wide layer whose parts are weighted (zero where not chosen),
and matrices are multiplied in the type that is asked for; bfloat16 is twelve times as fast where the CPU has AMX. In
float32 the result is transformers' up to rounding (a test compares them).

B sequences of S tokens are right-padded to a multiple of the window W, or shorter than it; N = B * S. H heads of D
numbers, T rows of compressed context, M streams.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from training.fused import fused
from training.indexer import choose, lesson
from training.rows import compressed_rows
from training.tensors import Angles, linear, rms_norm, rotate, unscaled_norm


@dataclass(slots=True)
class Pass:
    """How a batch is computed. ``topk`` None lets every visible row be read: the indexer then only learns.

    ``taught`` positions of each sequence teach it; ``losses`` gathers what it has to learn, a number a layer;
    ``loads`` gathers how many tokens each expert got, per layer that routes by score.
    """

    dtype: torch.dtype
    topk: int | None
    taught: Tensor | None
    losses: list[Tensor]
    loads: list[Tensor]


def hidden_states(model: Any, ids: Tensor, how: Pass) -> Tensor:
    """``ids`` [B, S] to the head's input [B, S, hidden], in ``how.dtype``. ``model`` is a DeepseekV4ForCausalLM."""
    core, config = model.model, model.config
    batch, length = ids.shape
    if length % min(length, config.sliding_window):
        raise ValueError(f"{length} tokens are not a multiple of the window of {config.sliding_window}")
    angles = {
        kind: Angles(*(part[0] for part in core.rotary_emb(core.embed_tokens.weight, _positions(length), kind)))
        for kind in ("main", "compress")
    }
    flat = ids.reshape(-1)
    streams = core.embed_tokens(flat)[:, None, :].expand(-1, config.hc_mult, -1)
    for layer in core.layers:
        post, mix, x = hyper(streams, layer.attn_hc)
        x = rms_norm(x, layer.input_layernorm).to(how.dtype).view(batch, length, -1)
        out = attention(x, layer.self_attn, angles, how)
        streams = merge(post, mix, out.view(batch * length, -1), streams)
        post, mix, x = hyper(streams, layer.ffn_hc)
        x = rms_norm(x, layer.post_attention_layernorm).to(how.dtype)
        streams = merge(post, mix, experts(x, flat, layer.mlp, how), streams)
    head = core.hc_head
    scale = torch.rsqrt(streams.flatten(1).square().mean(-1, keepdim=True) + config.rms_norm_eps)
    before = torch.sigmoid(F.linear(streams.flatten(1), head.hc_fn) * scale * head.hc_scale + head.hc_base) + head.eps
    x = (before[..., None] * streams).sum(1)
    return rms_norm(x, core.norm).to(how.dtype).view(batch, length, -1)


def hyper(streams: Tensor, module: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Streams [N, M, hidden] to what is added back [N, M], the mixing matrix [N, M, M] and the input [N, hidden]."""
    mixes = F.linear(streams.flatten(1), module.fn)
    return hyper_weights(
        mixes, streams, module.base, module.scale, module.hc_sinkhorn_iters, module.hc_eps, module.input_norm.eps
    )


@fused
def hyper_weights(
    mixes: Tensor, streams: Tensor, base: Tensor, scale: Tensor, iterations: int, eps: float, norm_eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """What ``hyper`` does behind its matrix. Streams are normed as one vector, which may as well be done behind it."""
    count = streams.shape[1]
    mixes = mixes * torch.rsqrt(streams.square().mean((1, 2)) + norm_eps)[:, None]
    before, post, mix = torch.split(mixes, [count, count, count * count], -1)
    before_base, post_base, mix_base = torch.split(base, [count, count, count * count])
    before = torch.sigmoid(before * scale[0] + before_base) + eps
    post = 2 * torch.sigmoid(post * scale[1] + post_base)
    mix = torch.softmax((mix * scale[2] + mix_base).view(-1, count, count), -1) + eps
    mix = mix / (mix.sum(-2, keepdim=True) + eps)
    for _ in range(iterations - 1):
        mix = mix / (mix.sum(-1, keepdim=True) + eps)
        mix = mix / (mix.sum(-2, keepdim=True) + eps)
    return post, mix, (before[..., None] * streams).sum(1)


@fused
def merge(post: Tensor, mix: Tensor, out: Tensor, streams: Tensor) -> Tensor:
    """A block's output [N, hidden] goes into each stream, beside the streams' own mixture."""
    kept = sum(mix[:, index, :, None] * streams[:, index, None, :] for index in range(mix.shape[1]))
    added: Tensor = post[..., None] * out[:, None, :].float() + kept
    return added


def attention(x: Tensor, module: Any, angles: dict[str, Angles], how: Pass) -> Tensor:
    """[B, S, hidden] to [B, S, hidden]."""
    batch, length, _ = x.shape
    here = angles[module.rope_layer_type].at(torch.arange(length), batch)
    q_small = rms_norm(linear(x, module.q_a_proj), module.q_a_norm).to(how.dtype)
    q = linear(q_small, module.q_b_proj).view(-1, module.num_heads, module.head_dim)
    q = rotate(unscaled_norm(q, module.q_b_norm.eps), here.cos[:, None], here.sin[:, None]).to(how.dtype)
    q = q.view(batch, length, module.num_heads, module.head_dim)
    kv = rms_norm(linear(x, module.kv_proj), module.kv_norm).flatten(0, 1)
    kv = rotate(kv, *here).to(how.dtype).view(batch, length, -1)
    rows, visible = None, None
    if module.compressor is not None:
        rows, visible = _rows(x, q_small, q, kv, module, angles["compress"], how)
    out = attend(q, kv, rows, visible, module.sinks, module.sliding_window, module.scaling)
    out = rotate(out.float().flatten(0, 1), here.cos[:, None], -here.sin[:, None]).to(how.dtype)
    groups = module.config.o_groups
    weight = module.o_a_proj.weight.to(how.dtype).view(groups, -1, module.o_a_proj.in_features)
    small = torch.bmm(out.view(batch * length, groups, -1).transpose(0, 1), weight.transpose(1, 2)).transpose(0, 1)
    return linear(small.reshape(batch, length, -1), module.o_b_proj)


def _rows(
    x: Tensor, q_small: Tensor, q: Tensor, kv: Tensor, module: Any, angles: Angles, how: Pass
) -> tuple[Tensor | None, Tensor | None]:
    """Compressed rows [B, T, D] and which of them each position may read [B or 1, S, T]; none where all is recent."""
    compressor, length = module.compressor, x.shape[1]
    if length < compressor.compress_rate:
        return None, None
    rows = compressed_rows(x, compressor, angles)
    ends = (torch.arange(rows.shape[1]) + 1) * compressor.compress_rate
    visible = (ends[None, :] <= _positions(length).T + 1)[None]
    if not hasattr(compressor, "indexer"):
        return rows, visible
    if how.taught is not None:
        how.losses.append(lesson(x, q_small, q, kv, rows, module, angles, how.taught))
    if how.topk is not None and rows.shape[1] > how.topk:
        with torch.no_grad():
            visible = choose(x, q_small, compressor.indexer, angles, visible, how.topk)
    return rows, visible


def attend(
    q: Tensor, kv: Tensor, rows: Tensor | None, visible: Tensor | None, sinks: Tensor, window: int, scale: float
) -> Tensor:
    """``q`` [B, S, H, D] over the last ``window`` of ``kv`` [B, S, D] and the visible rows; [B, S, H, D]."""
    batch, length, heads, dim = q.shape
    window = min(window, length)
    chunks = length // window
    here = kv.view(batch, chunks, window, dim)
    before = torch.cat([torch.zeros_like(here[:, :1]), here[:, :-1]], 1)
    keys = torch.cat([before, here], 2).flatten(0, 1)
    near = torch.bmm(q.reshape(batch * chunks, window * heads, dim), keys.transpose(1, 2))
    near = near.view(batch, chunks, window, heads, 2 * window)
    far = None if rows is None else torch.bmm(q.view(batch, length * heads, dim), rows.transpose(1, 2))
    far = None if far is None else far.view(batch, chunks, window, heads, -1)
    seen = None if visible is None else visible.view(-1, chunks, window, 1, visible.shape[-1])
    near, far = probabilities(near, far, seen, sinks, scale)
    out = torch.bmm(near.view(batch * chunks, window * heads, 2 * window), keys).view(batch, length, heads, dim)
    if far is not None and rows is not None:
        out = out + torch.bmm(far.view(batch, length * heads, -1), rows).view(batch, length, heads, dim)
    return out


@fused
def probabilities(
    near: Tensor, far: Tensor | None, seen: Tensor | None, sinks: Tensor, scale: float
) -> tuple[Tensor, Tensor | None]:
    """Scores [B, chunks, W, H, 2W] and [B, chunks, W, H, T] become shares of one softmax with the heads' sinks."""
    window = near.shape[2]
    query, key = torch.arange(window)[:, None] + window, torch.arange(2 * window)[None, :]
    band = (key <= query) & (key > query - window)
    first = torch.arange(near.shape[1])[:, None, None] == 0
    band = band & ~(first & (key < window))
    parts = [(near.float() * scale).masked_fill(~band[:, :, None, :], float("-inf"))]
    if far is not None and seen is not None:
        parts.append((far.float() * scale).masked_fill(~seen, float("-inf")))
    parts.append(sinks[:, None].float().expand(*near.shape[:-1], 1))
    shares = torch.softmax(torch.cat(parts, -1), -1).to(near.dtype)
    return shares[..., : 2 * window], None if far is None else shares[..., 2 * window : -1]


def experts(x: Tensor, ids: Tensor, module: Any, how: Pass) -> Tensor:
    """[N, hidden] to [N, hidden]: all experts as one layer, those not chosen weighted with zero, and the shared one."""
    gate, inner, shared = module.gate, module.experts.intermediate_dim, module.shared_experts
    scores = F.softplus(linear(x, gate).float()).sqrt()
    if module.is_hash:
        chosen = gate.tid2eid[ids]
    else:
        chosen = (scores + gate.e_score_correction_bias).topk(gate.top_k, -1).indices
        how.loads.append(torch.bincount(chosen.flatten(), minlength=gate.num_experts))
    weights = scores.gather(1, chosen)
    weights = weights / (weights.sum(-1, keepdim=True) + 1e-20) * gate.routed_scaling_factor
    spread = torch.zeros_like(scores).scatter(1, chosen, weights)
    up = F.linear(x, module.experts.gate_up_proj.to(how.dtype).flatten(0, 1))
    h = gated(up.view(-1, gate.num_experts, 2, inner), spread, module.experts.limit)
    down = module.experts.down_proj.to(how.dtype).transpose(0, 1).flatten(1)
    both = torch.stack([linear(x, shared.gate_proj), linear(x, shared.up_proj)], 1)[:, None]
    own = gated(both, torch.ones_like(spread[:, :1]), shared.limit)
    return F.linear(h.flatten(1), down) + linear(own.flatten(1), shared.down_proj)


@fused
def gated(up: Tensor, weights: Tensor, limit: float) -> Tensor:
    """[N, E, 2, inner] (gate, value) and [N, E] to [N, E, inner]."""
    gate, value = up.float().unbind(2)
    h = F.silu(gate.clamp(max=limit)) * value.clamp(-limit, limit) * weights[..., None]
    return h.to(up.dtype)


def _positions(length: int) -> Tensor:
    return torch.arange(length)[None]
