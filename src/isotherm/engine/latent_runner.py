"""From the scheduler's segments to forwards of a DeepSeek-V4 network over its pool."""

from __future__ import annotations

from itertools import chain

import torch
from torch import Tensor

from isotherm.cache.latent_pool import LATENT_BLOCK, LatentPool
from isotherm.engine.plan import Segment
from isotherm.engine.runner import logit_rows
from isotherm.model.deepseek_v4.memory import DecodeRows, Span
from isotherm.model.deepseek_v4.network import DeepseekV4, Forward


class LatentRunner:
    """Runs forwards of a model over its pool.

    At most ``together`` rows decode in one forward, if it is given: so few that kernels compute them independently of
    each other.
    """

    def __init__(self, model: DeepseekV4, pool: LatentPool, together: int | None = None) -> None:
        self._model, self._pool, self._together = model, pool, together

    @torch.inference_mode()
    def run(self, segments: list[Segment]) -> Tensor:
        """Logits float32 [rows, vocabulary], rows in segment order (see ``plan.Segment``)."""
        if self._together is None or not segments[-1].decode:
            return self._model.forward(self._forward(segments), self._pool)
        parts = [segments[first : first + self._together] for first in range(0, len(segments), self._together)]
        return torch.cat([self._model.forward(self._forward(part), self._pool) for part in parts])

    def _forward(self, segments: list[Segment]) -> Forward:
        spans, first = [], 0
        decode = [segment for segment in segments if segment.decode]
        for segment in segments[: len(segments) - len(decode)]:
            blocks = self._long(segment.sequence.blocks[: _blocks(segment)])
            spans.append(Span(first, first + segment.length, segment.start, _slot(segment), blocks))
            first += segment.length
        rows = logit_rows(segments)
        return Forward(
            token_ids=self._long(
                list(chain.from_iterable(s.sequence.tokens[s.start : s.start + s.length] for s in segments))
            ),
            positions=self._long(list(chain.from_iterable(range(s.start, s.start + s.length) for s in segments))),
            spans=spans,
            logit_rows=None if rows is None else self._long(rows),
            decode=self._decode_rows(decode) if decode else None,
        )

    def _decode_rows(self, segments: list[Segment]) -> DecodeRows:
        reach = max(_blocks(segment) for segment in segments)
        tables = [(segment.sequence.blocks[:reach] + [0] * reach)[:reach] for segment in segments]
        return DecodeRows(
            slots=self._long([_slot(segment) for segment in segments]),
            positions=self._long([segment.start for segment in segments]),
            tables=torch.tensor(tables, dtype=torch.int64, device=self._model.device),
        )

    def _long(self, values: list[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._model.device)


def _blocks(segment: Segment) -> int:
    """How many blocks the sequence has filled or begun after the segment."""
    return -(-(segment.start + segment.length) // LATENT_BLOCK)


def _slot(segment: Segment) -> int:
    slot = segment.sequence.slot
    assert slot is not None, "a sequence that runs has a slot"
    return slot
