"""Batches of equal size: samples of similar length in one, padded on the right, none beside another in a row."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from isotherm.bench.skills.source import Source
from training.corpus import draw
from training.layout import Layout, Sample

TOKENS = 4096
"""Of a batch, padding included: always the same, so that compiled code is."""
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
PAD = 2


@dataclass(frozen=True, slots=True)
class Batch:
    """``ids`` [B, S], and ``answers`` [B, S]: whether the token behind a position belongs to an answer."""

    ids: Tensor
    answers: Tensor


@dataclass(slots=True)
class Batches:
    """An endless stream over a source; what was drawn but not yet given waits in ``waiting`` by length."""

    layout: Layout
    source: Source
    tokens: int = TOKENS
    waiting: dict[int, list[Sample]] = field(default_factory=dict)

    def next(self, reach: float) -> Batch:
        """``reach`` from 0 to 1 limits how large newly drawn items may be."""
        while True:
            sample = self.layout.sample(draw(self.source, reach))
            length = bucket(len(sample.ids))
            if length is None or length > self.tokens:
                continue
            row = self.waiting.setdefault(length, [])
            row.append(sample)
            if len(row) * length == self.tokens:
                return pad(self.waiting.pop(length), length)


def bucket(length: int) -> int | None:
    """The shortest row that holds so many tokens; None where none does."""
    return next((size for size in LENGTHS if length <= size), None)


def pad(samples: list[Sample], length: int) -> Batch:
    """Right-padded rows; the last token of a row has nothing to say."""
    ids = torch.full((len(samples), length), PAD)
    answers = torch.zeros(len(samples), length, dtype=torch.bool)
    for row, sample in enumerate(samples):
        ids[row, : len(sample.ids)] = torch.tensor(sample.ids)
        for first, end in sample.answers:
            answers[row, first - 1 : end - 1] = True
    return Batch(ids, answers)
