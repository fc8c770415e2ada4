"""A small DeepSeek-V4 over its real pool, with an engine or without: what tests of exactness share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from isotherm.base.backend import unwatched
from isotherm.cache.manager import BlockManager
from isotherm.cache.prefix_tree import Node
from isotherm.engine import latent_parts
from isotherm.engine.loop import Engine
from isotherm.engine.machine import use_threads
from isotherm.engine.options import EngineOptions, Limits
from isotherm.engine.parts import Parts
from isotherm.engine.plan import Segment
from isotherm.engine.sequence import Sequence
from isotherm.engine.text import ModelText
from isotherm.model.checkpoint import Checkpoint, open_checkpoint
from isotherm.model.deepseek_v4.config import DeepseekV4Config

PLACES, CONTEXT = 4, 2048
EXACT = EngineOptions(
    "", dtype="float32", kv_dtype="float32", max_num_seqs=PLACES, max_model_len=CONTEXT, kv_memory=32 << 20
)
"""Nothing is rounded: what two ways of computing the same differ by is the order of sums."""


@dataclass(frozen=True, slots=True)
class Network:
    """A checkpoint made ready to serve, once for many engines."""

    checkpoint: Checkpoint
    parts: Parts

    @property
    def num_blocks(self) -> int:
        return self.parts.blocks.num_blocks

    def feed(
        self, tokens: list[int], pieces: list[int], *, slot: int = 0, first_block: int = 0, decode: bool = False
    ) -> torch.Tensor:
        """Logits [sum of pieces, V] of a sequence computed piece by piece, alone in every forward.

        With ``decode`` pieces of one token behind the first are decode rows, not prompts of one token.
        """
        size = self.parts.blocks.block_size
        blocks = list(range(first_block, first_block - (-len(tokens) // size)))
        sequence, rows, start = Sequence(0, tokens, blocks=blocks, slot=slot), [], 0
        for length in pieces:
            rows.append(
                self.parts.runner.run(
                    [Segment(sequence, start, length, decode and start > 0 and length == 1, False, all_logits=True)]
                )
            )
            start += length
        return torch.cat(rows)

    def scores(self, tokens: list[int]) -> torch.Tensor:
        """Log-probabilities float64 [T, V] of one forward over everything."""
        return self.feed(tokens, [len(tokens)]).double().log_softmax(-1)

    def engine(self, *, num_blocks: int, prefill_chunk: int, places: int = PLACES) -> Engine:
        """A new engine over the old pool: whatever lay there before must not matter."""
        slots = self.parts.slots
        assert slots is not None
        assert slots.num_kept == 0, "the engine before was emptied"
        blocks = BlockManager(num_blocks, self.parts.blocks.block_size, evicted=slots.forget)
        limits = Limits(
            max_model_len=CONTEXT,
            pool_tokens=num_blocks * blocks.block_size,
            max_num_seqs=places,
            max_queue=100,
            vocab_size=self.parts.vocab_size,
            block_size=blocks.block_size,
            prefill_chunk=prefill_chunk,
        )
        return Engine(self.parts.runner, blocks, limits, ModelText(self.checkpoint.tokenizer), slots=slots)

    def empty(self, engine: Engine) -> None:
        """Every block, slot and snapshot of an idle engine must be there to be taken; gives all of them back."""
        blocks, slots = engine.scheduler.blocks, self.parts.slots
        assert slots is not None
        engine.check_integrity()
        assert blocks.num_available == blocks.num_blocks
        held = blocks.allocate(blocks.num_blocks)
        assert slots.num_kept == 0, "a snapshot outlived its block"
        blocks.release(held)
        places = [slots.take() for _ in range(PLACES)]
        assert sorted(places) == list(range(PLACES)), "a running sequence's slot was lost"
        nodes = [Node((), index, None) for index in range(slots.num_snapshots)]
        for node in nodes:
            slots.keep(node, places[0])
        assert slots.num_kept == slots.num_snapshots, "a snapshot's place was lost"
        for node in nodes:
            slots.forget(node)
        for place in reversed(places):
            slots.release(place)


def load(folder: Path, **changes: Any) -> Network:
    """The checkpoint in ``folder`` over a float32 cache, or with ``changes`` of those options."""
    # Two threads that wait for each other on a busy machine take fifty times as long.
    use_threads(1)
    checkpoint = open_checkpoint(str(folder))
    assert isinstance(checkpoint.config, DeepseekV4Config)
    options = replace(EXACT, model=str(folder), **changes)
    assert options.max_model_len is not None
    parts = latent_parts.assemble(
        checkpoint, checkpoint.config, options, options.max_model_len, torch.device("cpu"), unwatched
    )
    return Network(checkpoint, parts)


def some_tokens(count: int, seed: int) -> list[int]:
    """Random ids of plain vocabulary."""
    return torch.randint(2, 500, (count,), generator=torch.Generator().manual_seed(seed)).tolist()
