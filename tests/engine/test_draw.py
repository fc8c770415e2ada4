"""Truncation rules against a plain reference, draws against their probabilities, edges against NaN."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotherm.base.sampling import SamplingParams
from isotherm.engine.draw import BadLogits, draw, keep_candidates, weigh
from isotherm.engine.random import stream_key, uniform


def relative_weights(logits, temperature):
    return weigh(logits[None], [temperature])[0].each


def draw_from(logits, params, uniform):
    return draw(weigh(logits[None], [params.temperature])[0], params, uniform)


def reference_candidates(weights, params):
    """The rules as their definitions say, on the fully sorted vocabulary."""
    order = sorted(range(len(weights)), key=lambda i: (-weights[i], i))
    order = [i for i in order if weights[i] > 0]
    if params.top_k:
        order = order[: params.top_k]
    if params.top_p < 1:
        total, before, kept = sum(float(weights[i]) for i in order), 0.0, []
        for i in order:
            if kept and before >= params.top_p * total:
                break
            kept.append(i)
            before += float(weights[i])
        order = kept
    return [i for i in order if weights[i] >= np.float32(params.min_p)]


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([0.0, 0.01, 1.0, 5.0, 50.0]),
    top_k=st.sampled_from([0, 1, 5, 50, 299, 300, 1000]),
    top_p=st.sampled_from([1.0, 0.999, 0.9, 0.5, 1e-6]),
    min_p=st.sampled_from([0.0, 1e-4, 0.05, 1.0]),
)
def test_candidates_match_the_definition(seed, scale, top_k, top_p, min_p):
    rng = np.random.default_rng(seed)
    logits = (rng.standard_normal(300) * scale).astype(np.float32)
    params = SamplingParams(top_k=top_k, top_p=top_p, min_p=min_p)
    weights = relative_weights(logits, 1.0)
    got, want = keep_candidates(weights, params).tolist(), reference_candidates(weights, params)
    if got != want:
        # A cut at a sum that equals top_p may fall either way by rounding; nothing else may differ.
        shorter, longer = sorted((got, want), key=len)
        assert longer[: len(shorter)] == shorter
        assert len(longer) - len(shorter) == 1
        mass = float(weights[shorter].sum(dtype=np.float64))
        pool = weights if not top_k else weights[reference_candidates(weights, SamplingParams(top_k=top_k))]
        assert mass == pytest.approx(top_p * float(pool.sum(dtype=np.float64)), rel=1e-6)


@pytest.mark.parametrize(
    "params", [SamplingParams(), SamplingParams(top_k=40), SamplingParams(top_p=0.9), SamplingParams(min_p=0.02)]
)
@pytest.mark.parametrize("vocabulary", [50, 1000])
def test_draws_follow_the_probabilities(params, vocabulary):
    rng = np.random.default_rng(3)
    logits = (rng.standard_normal(vocabulary) * 2).astype(np.float32)
    params = SamplingParams(**{**_fields(params), "temperature": 0.7})
    weights = relative_weights(logits, 0.7).astype(np.float64)
    expected = np.zeros(vocabulary)
    kept = reference_candidates(relative_weights(logits, 0.7), params)
    expected[kept] = weights[kept] / weights[kept].sum()
    key, draws = stream_key(1, 0), 20_000
    counts = np.bincount([draw_from(logits, params, uniform(key, i)) for i in range(draws)], minlength=vocabulary)
    assert not counts[expected == 0].any()
    chi2 = ((counts - draws * expected) ** 2 / np.maximum(draws * expected, 1e-9))[expected * draws > 5].sum()
    freedom = int((expected * draws > 5).sum())
    assert chi2 < freedom + 5 * np.sqrt(2 * freedom)


def _fields(params):
    return {name: getattr(params, name) for name in params.__slots__}


def test_inverse_cdf_is_exact_at_the_borders():
    """Every uniform maps to the token whose interval of the cumulative sum holds it."""
    logits = np.log(np.array([0.25, 0.5, 0.25], np.float32))
    drawn = [draw_from(logits, SamplingParams(), u) for u in (0.0, 0.24, 0.26, 0.74, 0.76, 1 - 2**-53)]
    assert drawn == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("temperature", [1e-5, 1e-3, 1.0, 2.0, 1e6, 1e38, float("inf")])
@pytest.mark.parametrize("magnitude", [1e-30, 1.0, 1e4, 3e38])
@pytest.mark.parametrize("rules", [{}, {"top_p": 0.9}, {"top_k": 3}, {"min_p": 0.1}, {"top_k": 10**9, "top_p": 1e-9}])
def test_no_value_gives_nan(temperature, magnitude, rules):
    logits = (np.linspace(-1, 1, 700) * magnitude).astype(np.float32)
    logits[::7] = -np.inf
    with np.errstate(invalid="raise", divide="raise"):
        for u in (0.0, 0.5, 1 - 2**-53):
            token = draw_from(logits, SamplingParams(temperature=temperature, **rules), u)
            assert token % 7, "an excluded token was drawn"


def test_excluded_tokens_at_the_end_are_never_reached():
    logits = np.full(600, -np.inf, np.float32)
    logits[[3, 255]] = 0
    drawn = {draw_from(logits, SamplingParams(), u) for u in np.linspace(0, 1, 50, endpoint=False)}
    drawn.add(draw_from(logits, SamplingParams(), 1 - 2**-53))
    assert drawn == {3, 255}


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 17, 999])
def test_nonsense_anywhere_in_a_row_is_told_and_spares_its_neighbours(bad, place):
    logits = np.zeros((3, 1000), np.float32)
    logits[1, place] = bad
    rows = weigh(logits, [1.0, 1.0, 1.0])
    with pytest.raises(BadLogits):
        draw(rows[1], SamplingParams(), 0.5)
    assert draw(rows[0], SamplingParams(), 0.5) == draw(rows[2], SamplingParams(), 0.5) == 500


@pytest.mark.parametrize("vocabulary", [1, 15, 16, 255, 300, 1000])
def test_a_rows_weights_are_bitwise_the_same_in_any_company(vocabulary):
    logits = np.random.default_rng(0).normal(0, 4, (9, vocabulary)).astype(np.float32)
    together = weigh(logits, [0.8] * 9)
    for row in range(9):
        alone = weigh(logits[row : row + 1], [0.8])[0]
        assert np.array_equal(alone.each, together[row].each)
        assert np.array_equal(alone.sums, together[row].sums)
    expected = np.exp((logits - logits.max(1, keepdims=True)) / 0.8)
    np.testing.assert_allclose([row.each for row in together], expected, rtol=1e-5, atol=1e-30)
