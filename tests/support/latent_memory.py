"""Memory for a DeepSeek-V4 network alone: a real pool in float32, whose blocks lie in no order."""

from __future__ import annotations

import torch

from isotherm.cache.latent_pool import LATENT_BLOCK, LatentPool
from isotherm.engine.latent_parts import layouts
from isotherm.model.deepseek_v4.config import DeepseekV4Config
from isotherm.model.deepseek_v4.memory import DecodeRows, Span
from isotherm.model.deepseek_v4.network import Forward


class PlainMemory:
    """Room for one sequence of up to ``tokens``, in any precision."""

    def __init__(self, config: DeepseekV4Config, tokens: int, kv_dtype: str = "float32") -> None:
        window, compressors = layouts(config, kv_dtype)
        blocks = -(-tokens // LATENT_BLOCK)
        self.pool = LatentPool(
            config.num_layers, config.attention.window, window, compressors, blocks + 1, 2, torch.device("cpu")
        )
        for store in self.pool.tensors():
            store.view(torch.uint8).fill_(0xFF if store.dtype == torch.float32 else 0x7F)
        self.blocks = torch.randperm(blocks, generator=torch.Generator().manual_seed(0)) + 1

    def span(self, tokens: torch.Tensor, start: int) -> Forward:
        """A forward of one sequence's tokens at positions ``start`` and up, which all give logits."""
        span = Span(0, len(tokens), start, 1, self.blocks)
        return Forward(tokens, torch.arange(start, start + len(tokens)), [span], None)

    def step(self, token: torch.Tensor, position: int) -> Forward:
        """A forward of one token, decoded."""
        at = torch.tensor([position])
        return Forward(token, at, [], None, DecodeRows(torch.tensor([1]), at, self.blocks[None]))
