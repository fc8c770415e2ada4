"""From the scheduler's segments to tensors, one forward, and logits back."""

from __future__ import annotations

from collections.abc import Sequence as Rows
from itertools import chain

import torch
from torch import Tensor

from isotherm.base.block import BLOCK_SIZE
from isotherm.cache.pool import KVPool
from isotherm.engine.plan import Segment
from isotherm.model.batch import Batch, PrefillSpan
from isotherm.model.llama import Llama


class Runner:
    """Runs forwards of a model over a pool of key/value blocks."""

    def __init__(self, model: Llama, pool: KVPool) -> None:
        self._model, self._pool = model, pool

    @torch.inference_mode()
    def run(self, segments: list[Segment]) -> Tensor:
        """Logits float32 [rows, vocabulary]: all rows of a segment that asks, or its last if it ends the context."""
        return self._model.forward(self._batch(segments), (self._pool.keys, self._pool.values))

    def _batch(self, segments: list[Segment]) -> Batch:
        prefill = [s for s in segments if not s.decode]
        decode = [s for s in segments if s.decode]
        spans, first = [], 0
        for segment in prefill:
            used = -(-(segment.start + segment.length) // BLOCK_SIZE)
            blocks = self._long(segment.sequence.blocks[:used])
            spans.append(PrefillSpan(first, first + segment.length, segment.start, blocks))
            first += segment.length
        reach = max((s.start // BLOCK_SIZE + 1 for s in decode), default=0)
        rows = logit_rows(segments)
        tables = [(s.sequence.blocks + [0] * reach)[:reach] for s in decode]
        return Batch(
            token_ids=self._long(list(chain.from_iterable(_tokens(s) for s in segments))),
            positions=self._long(list(chain.from_iterable(range(s.start, s.start + s.length) for s in segments))),
            slots=self._long(list(chain.from_iterable(_slots(s) for s in segments))),
            prefill=tuple(spans),
            tables=torch.tensor(tables, dtype=torch.int32, device=self._model.device).view(len(decode), reach),
            lengths=torch.tensor([s.start + 1 for s in decode], dtype=torch.int32, device=self._model.device),
            logit_rows=None if rows is None else self._long(rows),
        )

    def _long(self, values: Rows[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._model.device)


def logit_rows(segments: list[Segment]) -> list[int] | None:
    """Rows whose logits the segments ask for, None if those are all."""
    rows: list[int] = []
    first = 0
    for segment in segments:
        last = first + segment.length
        if segment.all_logits:
            rows.extend(range(first, last))
        elif segment.ends_context:
            rows.append(last - 1)
        first = last
    return None if len(rows) == first else rows


def _tokens(segment: Segment) -> list[int]:
    return segment.sequence.tokens[segment.start : segment.start + segment.length]


def _slots(segment: Segment) -> list[int]:
    blocks = segment.sequence.blocks
    return [
        blocks[position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE
        for position in range(segment.start, segment.start + segment.length)
    ]
