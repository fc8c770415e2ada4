"""The indexer: which rows are read, and how it learns that.

Choosing the best rows has no gradient, so the loss of the words never reaches the indexer. As in DeepSeek's own
training it learns from attention: the shares that all heads together give to the rows are what a softmax over its
scores should give. Its inputs are detached, so only its own weights learn from this. A few positions of each sequence
are enough, since what they teach is the same for all.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from training.rows import compressed_rows
from training.tensors import Angles, linear, rotate

PIECE = 256
"""Positions scored at once: [B, PIECE, heads, T] scores have to fit."""


def scores(x: Tensor, q_small: Tensor, keys: Tensor, indexer: Any, angles: Angles) -> Tensor:
    """Of positions with inputs ``x`` [B, Q, hidden] and ``q_small`` [B, Q, rank] over ``keys`` [B, T, d]: [B, Q, T].

    ``angles`` are those of the B * Q positions.
    """
    batch, count, _ = x.shape
    q = linear(q_small, indexer.q_b_proj).view(-1, indexer.num_heads, indexer.head_dim)
    q = rotate(q.float(), angles.cos[:, None], angles.sin[:, None]).to(x.dtype)
    products = torch.bmm(q.view(batch, -1, indexer.head_dim), keys.transpose(1, 2))
    products = products.view(batch, count, indexer.num_heads, -1).relu() * indexer.scorer.softmax_scale
    weights = linear(x, indexer.scorer.weights_proj) * indexer.scorer.weights_scaling
    return torch.einsum("bqht,bqh->bqt", products, weights).float()


def choose(x: Tensor, q_small: Tensor, indexer: Any, angles: Angles, visible: Tensor, topk: int) -> Tensor:
    """The best ``topk`` of the visible rows of each position, [B, S, T]."""
    keys = compressed_rows(x, indexer, angles)
    chosen = torch.zeros(x.shape[0], x.shape[1], keys.shape[1], dtype=torch.bool)
    for start in range(0, x.shape[1], PIECE):
        piece = slice(start, min(start + PIECE, x.shape[1]))
        at = angles.at(torch.arange(piece.start, piece.stop), x.shape[0])
        found = scores(x[:, piece], q_small[:, piece], keys, indexer, at)
        found = found.masked_fill(~visible[:, piece], float("-inf"))
        chosen[:, piece].scatter_(2, found.topk(topk, -1).indices, True)
    return chosen & visible


def lesson(
    x: Tensor, q_small: Tensor, q: Tensor, kv: Tensor, rows: Tensor, module: Any, angles: Angles, taught: Tensor
) -> Tensor:
    """Cross-entropy, less its least value, between heads' shares of rows and the indexer's, at ``taught`` [Q]."""
    indexer, ratio = module.compressor.indexer, module.compressor.compress_rate
    ends = (torch.arange(rows.shape[1]) + 1) * ratio
    visible = ends[None, :] <= taught[:, None] + 1
    with torch.no_grad():
        target = _shares(q[:, taught], kv, rows, visible, taught, module)
        inputs, small = x.detach(), q_small[:, taught].detach()
    keys = compressed_rows(inputs, indexer, angles)
    found = scores(inputs[:, taught], small, keys, indexer, angles.at(taught, x.shape[0]))
    logs = found.masked_fill(~visible, -1e9).log_softmax(-1)
    known = target.clamp(min=1e-9).log()
    return ((target * (known - logs)).sum(-1)).mean()


def _shares(q: Tensor, kv: Tensor, rows: Tensor, visible: Tensor, taught: Tensor, module: Any) -> Tensor:
    """What all heads together give to each row, [B, Q, T], summing to 1 (to 0 where no row is visible)."""
    near = torch.einsum("bqhd,bkd->bqhk", q, kv).float() * module.scaling
    keys = torch.arange(kv.shape[1])
    band = (keys[None, :] <= taught[:, None]) & (keys[None, :] > taught[:, None] - module.sliding_window)
    near = near.masked_fill(~band[:, None, :], float("-inf"))
    far = torch.einsum("bqhd,btd->bqht", q, rows).float() * module.scaling
    far = far.masked_fill(~visible[:, None, :], float("-inf"))
    sinks = module.sinks.float()[:, None].expand(*near.shape[:-1], 1)
    shares = torch.cat([near, far, sinks], -1).softmax(-1)[..., near.shape[-1] : -1].sum(2)
    return shares / shares.sum(-1, keepdim=True).clamp(min=1e-9)
