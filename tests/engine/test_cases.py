"""Reported contamination, as a test: parallel sessions share a long beginning, each has its own secret."""

import json
from pathlib import Path

from engine.fakes import VOCAB, answer, drain, limits, make_engine, solo, submit

CASE = json.loads((Path(__file__).parents[1] / "cases" / "159-parallel-canaries.json").read_text())


def tokens_of(messages, shared):
    """A prompt of one token a character, behind a beginning that all sessions share."""
    text = "".join(message["content"] for message in messages)
    return [2 + index % 50 for index in range(shared)] + [2 + ord(character) % (VOCAB - 2) for character in text]


def test_parallel_canaries():
    """The model's answer is a hash of what its blocks hold: one block of another session and it is another answer."""
    probe = CASE["input"]["probe"]
    prompts = [tokens_of(request["messages"], shared=100) for request in probe["requests"]]
    assert len({tuple(prompt) for prompt in prompts}) == len(prompts) == probe["parallel"]
    bounds = limits(max_model_len=300, pool_tokens=800, max_num_seqs=16)
    alone = [solo(bounds, prompt, max_tokens=6) for prompt in prompts]
    engine, _ = make_engine(bounds)
    for round_number in range(probe["rounds"]):
        for index, prompt in enumerate(prompts):
            submit(engine, round_number * 100 + index, prompt, max_tokens=6)
        pieces = drain(engine)
        assert [answer(pieces[round_number * 100 + index]) for index in range(len(prompts))] == alone
    stats = engine.stats()
    assert stats.evicted_blocks_total > 0
    assert stats.cached_tokens_total > 15 * 100
