"""What shares a step, who goes first, and what happens when blocks run out."""

import pytest

from engine.fakes import MODES, VOCAB, answer, drain, limits, make_engine, solo, submit
from isotherm.base.errors import RequestError

PROMPT = [2 + index % 50 for index in range(60)]


def segments(engine):
    """The next step's plan as (sequence, start, length, decode), forward by forward; the step is carried out."""
    seen = []
    run = engine._runner.run
    engine._runner.run = lambda forward: seen.append(forward) or run(forward)
    engine.step()
    engine._runner.run = run
    return [[(s.sequence.id, s.start, s.length, s.decode) for s in forward] for forward in seen]


def test_prefill_in_chunks_beside_decoding():
    """Decode rows take their share of the token budget first; the chunk gets the rest."""
    engine, _ = make_engine()
    submit(engine, 0, [5, 6, 7])
    assert segments(engine) == [[(0, 0, 3, False)]]
    submit(engine, 1, PROMPT[:40])
    assert segments(engine) == [[(1, 0, 15, False), (0, 3, 1, True)]]
    assert segments(engine) == [[(1, 15, 15, False), (0, 4, 1, True)]]
    assert segments(engine) == [[(1, 30, 10, False), (0, 5, 1, True)]]
    assert segments(engine) == [[(0, 6, 1, True), (1, 40, 1, True)]]


def test_several_short_prompts_share_a_step():
    engine, _ = make_engine()
    for index in range(3):
        submit(engine, index, [10 + index] * 6)
    assert segments(engine) == [[(0, 0, 6, False), (1, 0, 6, False), (2, 0, 4, False)]]
    assert segments(engine) == [[(2, 4, 2, False), (0, 6, 1, True), (1, 6, 1, True)]]


def test_deterministic_chunks_stand_alone_on_the_grid():
    engine, _ = make_engine(limits(deterministic=True))
    submit(engine, 0, [5, 6, 7])
    submit(engine, 1, PROMPT[:40])
    assert segments(engine) == [[(0, 0, 3, False)]], "a whole chunk of 16 does not fit beside 3 tokens"
    assert segments(engine) == [[(1, 0, 16, False)], [(0, 3, 1, True)]]
    assert segments(engine) == [[(1, 16, 16, False)], [(0, 4, 1, True)]]
    assert segments(engine) == [[(1, 32, 8, False)], [(0, 5, 1, True)]]
    assert segments(engine) == [[(0, 6, 1, True), (1, 40, 1, True)]]


def test_deterministic_prompts_share_a_forward_where_rows_are_independent():
    engine, _ = make_engine(limits(deterministic=True, independent_rows=True))
    submit(engine, 0, [5, 6, 7])
    submit(engine, 1, PROMPT[:40])
    assert segments(engine) == [[(0, 0, 3, False), (1, 0, 13, False)]]
    assert segments(engine) == [[(1, 13, 16, False)], [(0, 3, 1, True)]]
    assert segments(engine) == [[(1, 29, 11, False)], [(0, 4, 1, True)]]
    assert segments(engine) == [[(0, 5, 1, True), (1, 40, 1, True)]]


@pytest.mark.parametrize(("length", "cached"), [(3, 0), (4, 0), (5, 4), (8, 4), (9, 8), (40, 36)])
def test_prefix_hit_leaves_the_last_token_to_compute(length, cached):
    engine, _ = make_engine()
    submit(engine, 0, PROMPT[:length], max_tokens=1)
    drain(engine)
    submit(engine, 1, PROMPT[:length], max_tokens=1)
    (piece,) = drain(engine)[1]
    assert piece.finish.usage.cached_tokens == cached


@pytest.mark.parametrize(("length", "cached"), [(15, 0), (16, 0), (17, 16), (32, 16), (33, 32), (40, 32)])
def test_deterministic_prefix_hit_ends_on_the_grid(length, cached):
    engine, _ = make_engine(limits(deterministic=True))
    for sequence in (0, 1):
        submit(engine, sequence, PROMPT[:length], max_tokens=1)
        (piece,) = drain(engine)[sequence]
    assert piece.finish.usage.cached_tokens == cached


def test_answers_are_reusable_too():
    """A conversation's next turn finds the previous answer, computed by decoding, in the cache."""
    engine, _ = make_engine()
    submit(engine, 0, PROMPT[:10], max_tokens=20)
    first = answer(drain(engine)[0])
    submit(engine, 1, PROMPT[:10] + first + [3, 4], max_tokens=1)
    assert drain(engine)[1][-1].finish.usage.cached_tokens == 28, "29 tokens are computed, the last one never was"


@pytest.mark.parametrize(("mode", "cached"), [(MODES[1], 0), (MODES[2], 8)])
def test_deterministic_mode_never_shares_decoded_blocks(mode, cached):
    engine, _ = make_engine(limits(**mode))
    submit(engine, 0, PROMPT[:10], max_tokens=40)
    first = answer(drain(engine)[0])
    submit(engine, 1, PROMPT[:10] + first, max_tokens=1)
    assert drain(engine)[1][-1].finish.usage.cached_tokens == cached


def test_same_prompts_at_once_are_computed_once():
    """Choices of one request, or many users of one system prompt, wait for the first one's blocks."""
    engine, runner = make_engine()
    for sequence in range(4):
        submit(engine, sequence, PROMPT[:41], max_tokens=1)
    pieces = drain(engine)
    assert runner.computed == 41 + 3
    assert len({tuple(answer(pieces[sequence])) for sequence in range(4)}) == 1


def test_waiting_for_a_prefix_ends_when_its_owner_is_aborted():
    engine, _ = make_engine()
    submit(engine, 0, PROMPT[:50], max_tokens=4)
    submit(engine, 1, PROMPT[:50], max_tokens=4)
    engine.step()
    assert len(engine.scheduler.running) == 1
    engine.abort(0)
    assert answer(drain(engine)[1]) == solo(limits(), PROMPT[:50], max_tokens=4)


@pytest.mark.parametrize("mode", MODES)
def test_preemption_loses_nothing(mode):
    """A pool for two and a half answers, six requests: some give way, all answers are those of a solo run."""
    bounds = limits(pool_tokens=64, max_model_len=60, **mode)
    engine, _ = make_engine(bounds)
    prompts = {sequence: [10 + sequence] * (5 + sequence) for sequence in range(6)}
    for sequence, prompt in prompts.items():
        submit(engine, sequence, prompt, max_tokens=30, temperature=1.0, seed=sequence)
    pieces = drain(engine)
    assert engine.stats().preemptions_total > 0
    for sequence, prompt in prompts.items():
        alone = solo(bounds, prompt, max_tokens=30, temperature=1.0, seed=sequence)
        assert answer(pieces[sequence]) == alone
    assert (engine.stats().replayed_tokens_total > 0) is bool(mode)


def test_the_latest_arrival_gives_way_and_comes_back_first():
    engine, _ = make_engine(limits(pool_tokens=48, max_model_len=48))
    for sequence in range(3):
        submit(engine, sequence, [10 + sequence] * 10, max_tokens=20)
    while not engine.scheduler.preemptions:
        engine.step()
    submit(engine, 3, [30] * 3, max_tokens=2)
    assert list(engine.scheduler.running) == [0, 1]
    assert list(engine.scheduler.waiting) == [2, 3], "a small late request does not overtake"
    while 3 not in engine.scheduler.running:
        engine.step()
    assert 2 in engine.scheduler.running


def test_first_come_first_served():
    engine, _ = make_engine(limits(max_num_seqs=2))
    for sequence in range(6):
        submit(engine, sequence, [10 + sequence] * 5, max_tokens=6)
    finished = [piece.sequence for _ in range(200) if engine.has_work for piece in engine.step() if piece.finish]
    assert finished == sorted(finished)


def test_the_context_is_the_end():
    engine, _ = make_engine(limits(max_model_len=20))
    submit(engine, 0, PROMPT[:15], max_tokens=100)
    last = drain(engine)[0][-1]
    assert (last.finish.reason, last.finish.usage.completion_tokens) == ("length", 5)


def test_a_full_pool_is_the_end_too():
    """A lone sequence that fills the pool ends with reason length instead of evicting itself for ever."""
    engine, _ = make_engine(limits(pool_tokens=24))
    submit(engine, 0, PROMPT[:15], max_tokens=100)
    last = drain(engine)[0][-1]
    assert (last.finish.reason, last.finish.usage.completion_tokens) == ("length", 9)


@pytest.mark.parametrize(
    ("bounds", "tokens", "fields", "message"),
    [
        ({"max_model_len": 20}, PROMPT[:20], {}, "20 tokens.*window is 20"),
        ({"pool_tokens": 16}, PROMPT[:17], {}, "17 tokens.*KV cache holds 16.*--kv-memory"),
        ({}, [], {}, "empty"),
        ({}, [3, VOCAB], {}, "id 64 in prompt.*64 tokens"),
        ({}, [-1], {}, "id -1 in prompt"),
        ({}, [3], {"logit_bias": {99: 1.0}}, "id 99 in logit_bias"),
    ],
)
def test_what_can_never_be_served_is_refused(bounds, tokens, fields, message):
    engine, _ = make_engine(limits(**bounds))
    with pytest.raises(RequestError, match=message):
        submit(engine, 0, tokens, **fields)
    assert not engine.has_work


def test_the_longest_possible_prompt_is_served():
    engine, _ = make_engine(limits(max_model_len=20))
    submit(engine, 0, PROMPT[:19], max_tokens=100)
    assert len(answer(drain(engine)[0])) == 1
