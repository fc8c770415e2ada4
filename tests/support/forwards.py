"""Runs forwards of a loaded network over a pool of its own, without a scheduler: chunks and batches as wanted."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from isotherm.base.block import BLOCK_SIZE
from isotherm.cache.pool import KVPool
from isotherm.engine.plan import Segment
from isotherm.engine.runner import Runner
from isotherm.engine.sequence import Sequence
from isotherm.model.llama import Llama


@dataclass
class Forwards:
    """A network with room for ``blocks`` blocks, dealt out in turn."""

    model: Llama
    blocks: int = 256
    used: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        shapes, layers = self.model.kv_block_shapes(), self.model.config.num_layers
        self.runner = Runner(self.model, KVPool(self.blocks, BLOCK_SIZE, shapes, layers, self.model.dtype))

    def sequence(self, tokens: list[int], room: int) -> Sequence:
        """A sequence with blocks for ``room`` tokens."""
        count = -(-room // BLOCK_SIZE)
        blocks = list(range(self.used, self.used + count))
        self.used += count
        assert self.used <= self.blocks
        return Sequence(id=self.used, tokens=list(tokens), blocks=blocks)

    def prefill(self, sequence: Sequence, chunk: int, start: int = 0) -> torch.Tensor:
        """Logits [tokens from start, V] of all tokens, computed ``chunk`` at a time."""
        parts = []
        for first in range(start, len(sequence.tokens), chunk):
            length = min(chunk, len(sequence.tokens) - first)
            parts.append(self.runner.run([Segment(sequence, first, length, False, False, all_logits=True)]))
        return torch.cat(parts)

    def decode(self, sequences: list[Sequence]) -> torch.Tensor:
        """Logits [sequences, V] of each one's last token."""
        return self.runner.run([Segment(s, len(s.tokens) - 1, 1, True, True) for s in sequences])

    def greedy(self, sequences: list[Sequence], count: int) -> list[torch.Tensor]:
        """Append ``count`` greedy tokens to each sequence; returns each one's logits [count, V]."""
        logits = torch.cat([self.prefill(s, 512)[-1:] for s in sequences])
        rows = []
        for _ in range(count):
            rows.append(logits)
            for sequence, token in zip(sequences, logits.argmax(-1).tolist(), strict=True):
                sequence.tokens.append(token)
            logits = self.decode(sequences)
        return list(torch.stack(rows, dim=1))
