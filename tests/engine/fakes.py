"""A model that is a hash: fast, exact, and blind to everything that is not in the pool's blocks."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch

from isotherm.base.sampling import SamplingParams
from isotherm.cache.manager import BlockManager
from isotherm.engine.loop import Engine
from isotherm.engine.messages import Piece, Submit
from isotherm.engine.options import Limits
from isotherm.engine.plan import Segment
from isotherm.engine.random import _mix
from isotherm.engine.sequence import Sequence

VOCAB = 64
EOS = 1


class HashRunner:
    """Logits are a hash of the whole context, read back through the sequence's blocks.

    Each position stores (token, how it was computed). In deterministic mode the logits depend on that, as rounding
    makes them do in a real model: on the shapes of the forwards that computed the context, or, where rows are computed
    independently, on whether a token was a prompt's or a decode row.
    """

    def __init__(self, num_blocks: int, bounds: Limits) -> None:
        self.block_size = block_size = bounds.block_size
        self.tokens = [[-1] * block_size for _ in range(num_blocks)]
        self.shapes = [[0] * block_size for _ in range(num_blocks)]
        self.bounds = bounds
        self.forwards = 0
        self.computed = 0

    def run(self, forward: list[Segment]) -> torch.Tensor:
        self.forwards += 1
        rows: list[torch.Tensor] = []
        for segment in forward:
            self._write(segment, len(forward))
        for segment in forward:
            rows += self._rows(segment)
        return torch.stack(rows) if rows else torch.empty(0, VOCAB)

    def _write(self, segment: Segment, crowd: int) -> None:
        sequence = segment.sequence
        self.computed += segment.length
        if segment.decode or not self.bounds.deterministic:
            shape = 0
        elif self.bounds.independent_rows:
            shape = 1
        else:
            shape = _mix(segment.start * 7919 + segment.length * 31 + crowd)
        for position in range(segment.start, segment.start + segment.length):
            block = sequence.blocks[position // self.block_size]
            self.tokens[block][position % self.block_size] = sequence.tokens[position]
            self.shapes[block][position % self.block_size] = shape

    def _rows(self, segment: Segment) -> list[torch.Tensor]:
        end = segment.start + segment.length
        if segment.all_logits:
            wanted: Items[int] = range(segment.start, end)
        else:
            wanted = [end - 1] if segment.ends_context else []
        return [self._logits(segment.sequence, position) for position in wanted]

    def _logits(self, sequence: Sequence, position: int) -> torch.Tensor:
        state = 0
        for index in range(position + 1):
            block, offset = sequence.blocks[index // self.block_size], index % self.block_size
            state = _mix(state * 31 + self.tokens[block][offset] + 7 + self.shapes[block][offset])
        generator = torch.Generator().manual_seed(state >> 1)
        return torch.randn(VOCAB, generator=generator) * 3


class Letters:
    """Text tools for tests: token t is the letter chr(97 + t % 26), token 1 ends the answer."""

    eos_ids = frozenset({EOS})

    class Detokenizer:
        def push(self, token_id: int) -> str:
            return chr(97 + token_id % 26)

        def flush(self) -> str:
            return ""

    class Stops:
        """Holds back the longest end of the text that begins a stop string."""

        def __init__(self, stops: tuple[str, ...]) -> None:
            self.stops = stops
            self.held = ""

        def push(self, text: str) -> tuple[str, str | None]:
            self.held += text
            for stop in self.stops:
                at = self.held.find(stop)
                if at >= 0:
                    return self.held[:at], stop
            keep = max((n for s in self.stops for n in range(1, len(s)) if self.held.endswith(s[:n])), default=0)
            cut = len(self.held) - keep
            released, self.held = self.held[:cut], self.held[cut:]
            return released, None

        def flush(self) -> str:
            return self.held

    def detokenizer(self) -> Letters.Detokenizer:
        return Letters.Detokenizer()

    def stop_matcher(self, stops: tuple[str, ...], after: str | None, after_if: str | None) -> Letters.Stops:
        return Letters.Stops(stops)


def limits(**changes: Any) -> Limits:
    """Small enough for tests to meet every border: blocks of 4, chunks of 16, 64 blocks."""
    small = Limits(
        max_model_len=200,
        pool_tokens=256,
        max_num_seqs=8,
        max_queue=1000,
        vocab_size=VOCAB,
        block_size=4,
        prefill_chunk=16,
    )
    return replace(small, **changes)


MODES: tuple[dict[str, bool], ...] = (
    {},
    {"deterministic": True},
    {"deterministic": True, "independent_rows": True},
)
"""Default, and ``--deterministic`` over kernels whose results depend on a forward's shape or only on the row."""


def make_engine(bounds: Limits | None = None) -> tuple[Engine, HashRunner]:
    bounds = bounds or limits()
    num_blocks = bounds.pool_tokens // bounds.block_size
    runner = HashRunner(num_blocks, bounds)
    return Engine(runner, BlockManager(num_blocks, bounds.block_size), bounds, Letters()), runner


def params(**changes: Any) -> SamplingParams:
    return replace(SamplingParams(temperature=0.0, max_tokens=8, ignore_eos=True), **changes)


def submit(engine: Engine, sequence: int, tokens: Items[int], **changes: object) -> None:
    engine.submit(Submit(sequence, list(tokens), params(**changes)))


def drain(engine: Engine, limit: int = 20_000) -> dict[int, list[Piece]]:
    """Step until nothing is left; pieces by sequence. The pool must add up after every step."""
    pieces: dict[int, list[Piece]] = {}
    for _ in range(limit):
        if not engine.has_work:
            return pieces
        for piece in engine.step():
            pieces.setdefault(piece.sequence, []).append(piece)
        engine.check_integrity()
        arrivals = [sequence.arrival for sequence in engine.scheduler.running.values()]
        assert all(a < b for a, b in pairwise(arrivals))
    raise AssertionError("the engine does not come to an end")


def answer(pieces: Items[Piece]) -> list[int]:
    return [token for piece in pieces for token in piece.token_ids]


def solo(bounds: Limits, tokens: Items[int], **changes: object) -> list[int]:
    """The answer of an engine that serves nobody else."""
    engine, _ = make_engine(bounds)
    submit(engine, 0, tokens, **changes)
    return answer(drain(engine)[0])
