"""``deterministic`` with the real model: bitwise the same log-probabilities alone and in any crowd."""

import pytest
import torch

from engine.fakes import drain, params
from isotherm.engine.factory import build
from isotherm.engine.messages import Submit
from isotherm.engine.options import EngineOptions

pytestmark = pytest.mark.model

STORY = [3000 + (index * 7919) % 20000 for index in range(560)]
PROMPTS = [STORY, [*STORY[:520], 42, 43], STORY[100:140], STORY[:1]]
"""The first two share more than one prefill chunk of 512 tokens."""


@pytest.fixture(scope="module")
def engine():
    threads = torch.get_num_threads()
    options = EngineOptions(
        "smollm2-135m", max_model_len=1024, max_num_seqs=4, kv_memory=32 << 20, threads=1, deterministic=True
    )
    yield build(options).engine
    torch.set_num_threads(threads)


def submit(engine, sequence, prompt):
    engine.submit(Submit(sequence, prompt, params(temperature=0.8, seed=sequence % 10, max_tokens=6, logprobs=2)))


def scores(pieces):
    return [score for piece in pieces for score in piece.scores]


def test_alone_and_in_a_crowd(engine):
    """Cold, with a prefix hit, and in a crowd: every number is the same."""
    alone = []
    for index, prompt in enumerate(PROMPTS):
        submit(engine, index, prompt)
        alone.append(scores(drain(engine)[index]))
    cached = engine.stats().cached_tokens_total
    assert cached == 512, "the second prompt began like the first one"
    crowd = {10 + index: [] for index in range(len(PROMPTS))}
    for index, prompt in enumerate(PROMPTS):
        submit(engine, 10 + index, prompt)
        for piece in engine.step():
            crowd[piece.sequence].append(piece)
    for sequence, pieces in drain(engine).items():
        crowd[sequence] += pieces
    assert engine.stats().cached_tokens_total >= 3 * cached
    assert all(len(of_one) == 6 for of_one in alone)
    assert [scores(pieces) for pieces in crowd.values()] == alone
