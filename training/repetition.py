"""Where training begins: rows in which a span of random tokens comes again and again.

Nearly every skill copies: a name from the question into an answer, an id into a handler. A head that finds what came
before and takes what followed forms slowly from conversations, where most tokens can be guessed without it, and within
a hundred steps from rows that cannot be told in any other way.
"""

from __future__ import annotations

import random

import torch

from training.batches import Batch

FIRST_TOKENS, ALL_AT = 64, 0.6
"""Different tokens at the beginning, and the share of the repetition after which all of the vocabulary is used."""
LENGTHS = (128, 256, 512, 1024)
"""Of rows: the longer ones join one by one."""


def repetition(source: random.Random, tokens: int, vocabulary: range, done: float) -> Batch:
    """A batch of ``tokens`` over ids of ``vocabulary``; what comes again is to be said. ``done`` goes from 0 to 1."""
    length = min(tokens, source.choice(LENGTHS[: 1 + int(done * len(LENGTHS))]))
    share = min(1.0, done / ALL_AT)
    known = vocabulary[: round(FIRST_TOKENS * (len(vocabulary) / FIRST_TOKENS) ** share)]
    rows, answers = [], torch.zeros(tokens // length, length, dtype=torch.bool)
    for row in answers:
        span = source.randint(length // 4, length // 2)
        said = source.choices(known, k=span)
        rows.append((said * (length // span + 1))[:length])
        row[span : length - 1] = True
    return Batch(torch.tensor(rows), answers)
