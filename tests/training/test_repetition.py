"""Rows of random tokens that come again: what is asked for can be told from what came before, and only so."""

import random

import pytest

from training.repetition import FIRST_TOKENS, LENGTHS, repetition

WORDS = range(3, 2048)


@pytest.mark.parametrize("done", [0.0, 0.3, 0.99])
def test_each_row_repeats_a_span(done):
    batch = repetition(random.Random(1), 2048, WORDS, done)
    assert batch.ids.numel() == 2048
    for ids, asked in zip(batch.ids.tolist(), batch.answers.tolist(), strict=True):
        span = asked.index(True)
        assert ids[span:] == ids[:-span]
        # The token behind the last position is not there.
        assert asked == [False] * span + [True] * (len(ids) - span - 1) + [False]


def test_rows_grow_and_so_does_the_vocabulary():
    early = [repetition(random.Random(seed), 1024, WORDS, 0.0).ids for seed in range(20)]
    late = [repetition(random.Random(seed), 1024, WORDS, 0.99).ids for seed in range(20)]
    assert {ids.shape[1] for ids in early} == {LENGTHS[0]}
    assert {ids.shape[1] for ids in late} == set(LENGTHS)
    assert max(int(ids.max()) for ids in early) < WORDS[FIRST_TOKENS]
    assert max(int(ids.max()) for ids in late) > 1900
    assert min(int(ids.min()) for ids in late) >= WORDS[0]
