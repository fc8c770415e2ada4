"""Forwards of a DeepSeek-V4 network before the first request, so that nobody waits for code to be compiled."""

from __future__ import annotations

import torch

from isotherm.cache.latent_pool import LatentPool
from isotherm.engine.latent_runner import LatentRunner
from isotherm.engine.plan import Segment
from isotherm.engine.sequence import Sequence
from isotherm.kernels.layouts import loose
from isotherm.model.deepseek_v4.config import DeepseekV4Config
from isotherm.model.deepseek_v4.memory import INDEX
from isotherm.model.deepseek_v4.network import DeepseekV4

PROMPT = 40
"""Tokens: more than any operation serves by its form for few rows."""


def warm_up(model: DeepseekV4, pool: LatentPool, runner: LatentRunner) -> None:
    """A prompt in two chunks, and decode steps; the first sequence in that block and slot overwrites their rows."""
    sequence = Sequence(id=0, tokens=[0] * (PROMPT + 8), blocks=[0], slot=0)
    runner.run([Segment(sequence, 0, PROMPT, decode=False, ends_context=True)])
    runner.run([Segment(sequence, PROMPT, 4, decode=False, ends_context=True)])
    for rows in (1, 4):
        runner.run([Segment(sequence, PROMPT + 4, 1, decode=True, ends_context=True)] * rows)
    _choose(model, pool, model.config)


def _choose(model: DeepseekV4, pool: LatentPool, config: DeepseekV4Config) -> None:
    """Choose among rows as a long context does, without computing one."""
    layer = next((index for index, how in enumerate(config.layers) if how is not None and how.indexed), None)
    if layer is None:
        return
    a, device = config.attention, model.device
    queries = torch.zeros(1, a.index_heads, a.index_dim, device=device)
    weights, at = torch.zeros(1, a.index_heads, device=device), torch.zeros(1, dtype=torch.int64, device=device)
    stored = pool.compressed(layer, INDEX)
    for keys in (stored, loose(torch.zeros(2, a.index_dim, device=device))):
        model.ops.choose(queries, weights, keys, at[None], at, at + 2, 1)
