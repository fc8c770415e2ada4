"""Rows are sampled by their own rules, whoever stands beside them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isotherm.base.sampling import SamplingParams
from isotherm.engine.logprobs import score_token
from isotherm.engine.sampler import SamplingState, sample

VOCAB = 1000


def rows(count, seed=0):
    return torch.randn(count, VOCAB, generator=torch.Generator().manual_seed(seed)) * 4


def one(logits, prompt=(), end_ids=(), generated=(), choice=0, **fields):
    state = SamplingState(SamplingParams(**fields), prompt, choice, end_ids)
    for token in generated:
        state.add(token)
    return sample(logits.view(1, -1), [state])[0]


def test_greedy_and_the_rule_for_tiny_temperatures():
    logits = rows(1)[0]
    best = int(logits.argmax())
    assert [one(logits, temperature=t).token for t in (0.0, 1e-12, 9.9e-6)] == [best] * 3


def test_ties_go_to_the_lower_id():
    logits = torch.zeros(VOCAB)
    assert one(logits, temperature=0).token == 0


PARAMS = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 1.7]),
    top_p=st.sampled_from([1.0, 0.9]),
    top_k=st.sampled_from([0, 20]),
    min_p=st.sampled_from([0.0, 0.05]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    presence_penalty=st.sampled_from([0.0, 0.5]),
    logit_bias=st.dictionaries(st.integers(0, VOCAB - 1), st.floats(-10, 10), max_size=3),
    seed=st.integers(0, 100),
    logprobs=st.sampled_from([None, 0, 5]),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(PARAMS, min_size=1, max_size=33), st.integers(0, 1000))
def test_a_row_does_not_depend_on_its_neighbours(crowd, seed):
    """Bitwise: tokens and log-probabilities of a row are those that it gets alone."""
    logits = rows(len(crowd), seed)
    together = sample(logits, [SamplingState(params, [1, 2, 3]) for params in crowd])
    for index, params in enumerate(crowd):
        alone = sample(logits[index : index + 1], [SamplingState(params, [1, 2, 3])])[0]
        assert (alone.token, alone.score) == (together[index].token, together[index].score)


def test_raw_logits_are_left_as_they_were():
    logits = rows(1)
    before = logits.clone()
    one(logits[0], prompt=[1, 2], generated=[3], repetition_penalty=2.0, logit_bias={5: 9.0}, presence_penalty=1.0)
    assert torch.equal(logits, before)


def test_seed_decides_and_choices_differ():
    logits = rows(1)[0] / 4
    drawn = [[one(logits, seed=5, choice=c, generated=[0] * i).token for i in range(8)] for c in (0, 0, 1)]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def test_without_a_seed_answers_differ():
    logits = rows(1)[0] / 4
    assert len({tuple(one(logits, generated=[0] * i).token for i in range(8)) for _ in range(5)}) == 5


def test_bias_forces_and_bans():
    logits = rows(1)[0]
    best = int(logits.argmax())
    assert one(logits, temperature=0, logit_bias={7: 100.0}).token == 7
    assert one(logits, temperature=0, logit_bias={best: -100.0}).token != best


def test_min_tokens_forbids_the_end():
    logits = torch.zeros(VOCAB)
    logits[9] = 50
    assert one(logits, temperature=0, min_tokens=2, end_ids=[9]).token != 9
    assert one(logits, temperature=0, min_tokens=2, end_ids=[9], generated=[1]).token != 9
    assert one(logits, temperature=0, min_tokens=2, end_ids=[9], generated=[1, 1]).token == 9


def test_penalties_by_their_formulas():
    """Repetition counts prompt and answer, presence and frequency the answer alone."""
    logits = np.array([2.0, -2.0, 1.0, 0.5, 3.0], np.float32)
    state = SamplingState(
        SamplingParams(repetition_penalty=2.0, presence_penalty=0.25, frequency_penalty=0.5), prompt=[0, 1]
    )
    for token in (2, 2, 3):
        state.add(token)
    expected = [2.0 / 2, -2.0 * 2, 1.0 / 2 - 0.25 - 2 * 0.5, 0.5 / 2 - 0.25 - 0.5, 3.0]
    np.testing.assert_allclose(state.adjusted(logits), expected, rtol=1e-6)


def test_penalties_of_a_long_answer_grow_incrementally():
    state = SamplingState(SamplingParams(frequency_penalty=0.1), prompt=[])
    for token in list(range(500)) * 3:
        state.add(token)
    adjusted = state.adjusted(np.zeros(VOCAB, np.float32))
    np.testing.assert_allclose(adjusted[:500], -0.3, rtol=1e-6)
    assert not adjusted[500:].any()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nonsense_logits_hurt_their_own_row_only(bad, temperature):
    logits = rows(3)
    logits[1, 17] = bad
    params = SamplingParams(temperature=temperature, seed=1, logprobs=1)
    samples = sample(logits, [SamplingState(params, []) for _ in range(3)])
    assert [s.error is None for s in samples] == [True, False, True]
    assert "not finite" in samples[1].error


def test_logprobs_are_raw_and_sorted():
    """Neither temperature nor penalties nor truncation change what is reported."""
    logits = rows(1)[0]
    reference = torch.log_softmax(logits.double(), -1)
    got = one(logits, temperature=0.3, top_k=1, logit_bias={3: 100.0}, logprobs=5)
    assert got.token == 3
    assert got.score.logprob == pytest.approx(float(reference[3]), abs=1e-5)
    values, ids = reference.topk(5)
    assert [i for i, _ in got.score.top] == ids.tolist()
    assert [p for _, p in got.score.top] == pytest.approx(values.tolist(), abs=1e-5)
    assert one(logits, temperature=0, logprobs=0).score.top == []
    assert one(logits, temperature=0).score is None


def test_top_logprobs_with_ties_and_small_vocabularies():
    row = np.zeros(4, np.float32)
    assert [i for i, _ in score_token(row, 2, 2).top] == [0, 1]
    assert [i for i, _ in score_token(row, 2, 20).top] == [0, 1, 2, 3]
