"""Requests through the whole engine with a model whose every answer is known."""

import math
import random
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fakes import EOS, MODES, VOCAB, answer, drain, limits, make_engine, solo, submit
from isotherm.base.outcome import FinishReason

PROMPT = [7, 8, 9, 10, 11]


def text(pieces):
    return "".join(piece.text for piece in pieces)


def run(prompt=PROMPT, **fields):
    engine, _ = make_engine()
    submit(engine, 0, prompt, **fields)
    return drain(engine)[0]


def test_one_piece_a_token_and_a_finish():
    pieces = run(max_tokens=5)
    assert [len(piece.token_ids) for piece in pieces] == [1] * 5
    assert [piece.finish is None for piece in pieces] == [True] * 4 + [False]
    finish = pieces[-1].finish
    assert finish.reason is FinishReason.LENGTH
    assert (finish.usage.prompt_tokens, finish.usage.completion_tokens) == (5, 5)
    assert text(pieces) == "".join(chr(97 + token % 26) for token in answer(pieces))


def test_end_of_answer_token():
    pieces = run(logit_bias={EOS: 100.0}, ignore_eos=False)
    assert [(p.text, p.token_ids, p.finish.reason, p.finish.matched) for p in pieces] == [("", [EOS], "stop", None)]


def test_ignore_eos_goes_on():
    assert answer(run(logit_bias={EOS: 100.0}, ignore_eos=True, max_tokens=4)) == [EOS] * 4


def test_min_tokens_delays_the_end():
    tokens = answer(run(logit_bias={EOS: 100.0}, ignore_eos=False, min_tokens=3))
    assert len(tokens) == 4
    assert tokens.index(EOS) == 3


def test_stop_token_is_named():
    wanted = answer(run(max_tokens=3))
    last = run(stop_token_ids=(wanted[2],))[-1]
    assert (last.finish.reason, last.finish.matched, last.text) == ("stop", wanted[2], "")
    assert last.finish.usage.completion_tokens == 3


def test_stop_string_across_tokens():
    whole = text(run(max_tokens=8))
    pieces = run(max_tokens=8, stop=(whole[3:6],))
    assert (text(pieces), pieces[-1].finish.reason, pieces[-1].finish.matched) == (whole[:3], "stop", whole[3:6])
    assert len(answer(pieces)) == 6, "tokens of the stop string are delivered, their text is not"


def test_nothing_asked_nothing_sampled():
    (piece,) = run(max_tokens=0)
    assert (piece.text, piece.token_ids, piece.finish.reason) == ("", [], "length")
    assert piece.finish.usage.completion_tokens == 0


def test_logprobs_follow_held_back_text():
    whole = text(run(max_tokens=8))
    pieces = run(max_tokens=8, logprobs=2, stop=(whole[2:5] + "?",))
    assert [len(piece.token_ids) for piece in pieces] == [1, 1, 4, 1, 1], "three letters wait for a fourth"
    assert all([score.token_id for score in piece.scores] == piece.token_ids for piece in pieces)
    assert all(len(score.top) == 2 for piece in pieces for score in piece.scores)
    assert all(score.logprob == score.top[0][1] for piece in pieces for score in piece.scores), "greedy is the top"


@pytest.mark.parametrize("mode", MODES)
def test_prompt_logprobs(mode):
    """Scores of the whole prompt come with the first piece, whatever was cached and chunked."""
    prompt = [2 + index % 60 for index in range(45)]
    engine, _ = make_engine(limits(**mode))
    submit(engine, 0, prompt)
    drain(engine)
    submit(engine, 1, prompt, prompt_logprobs=1, max_tokens=3)
    pieces = drain(engine)[1]
    scores = pieces[0].prompt_scores
    assert [score.token_id for score in scores] == prompt
    assert scores[0].logprob is None
    assert all(score.logprob <= score.top[0][1] <= 0 for score in scores[1:])
    assert not any(piece.prompt_scores for piece in pieces[1:])
    assert pieces[-1].finish.usage.cached_tokens == 0


def test_echo_without_an_answer():
    (piece,) = run(max_tokens=0, prompt_logprobs=0)
    assert [score.token_id for score in piece.prompt_scores] == PROMPT


def test_prompt_logprobs_survive_preemption():
    """A prefill that is cut off by preemption scores each token once, as if it had not been."""
    prompt = [2 + index % 60 for index in range(30)]
    engine, _ = make_engine()
    submit(engine, 0, prompt, prompt_logprobs=0, max_tokens=1)
    engine.step()
    engine.scheduler._preempt(engine.scheduler.running[0])
    (piece,) = drain(engine)[0]
    fresh, _ = make_engine()
    submit(fresh, 0, prompt, prompt_logprobs=0, max_tokens=1)
    assert piece.prompt_scores == drain(fresh)[0][0].prompt_scores


def test_the_wait_for_the_first_step_is_told_with_the_end():
    """The second waits until the first has ended; what it waits after a preemption counts no more."""
    engine, runner = make_engine(limits(max_num_seqs=1))
    run_model = runner.run
    runner.run = lambda forward: time.sleep(0.02) or run_model(forward)
    before = time.monotonic()
    submit(engine, 0, PROMPT, max_tokens=3)
    submit(engine, 1, [20, 21], max_tokens=3)
    pieces = [piece for _ in range(4) for piece in engine.step()]
    begun = time.monotonic() - before
    engine.scheduler._preempt(engine.scheduler.running[1])
    time.sleep(0.2)
    pieces += drain(engine)[1]
    first, second = (piece.finish for piece in pieces if piece.finish)
    assert 0 <= first.queue_seconds < 0.06 <= second.queue_seconds < begun


def test_nonsense_from_the_model_ends_that_sequence_only():
    engine, runner = make_engine()
    submit(engine, 0, PROMPT)
    submit(engine, 1, [20, 21])
    run_model = runner.run

    def poisoned(forward):
        logits = run_model(forward)
        logits[0] = float("nan")
        return logits

    runner.run = poisoned
    pieces = engine.step()
    runner.run = run_model
    assert [(p.sequence, p.finish and p.finish.reason) for p in pieces] == [(0, "error"), (1, None)]
    assert "not finite" in pieces[0].finish.error
    rest = drain(engine)[1]
    assert pieces[1].token_ids + answer(rest) == solo(limits(), [20, 21])


def test_abort_frees_at_once():
    engine, _ = make_engine()
    submit(engine, 0, PROMPT)
    submit(engine, 1, PROMPT)
    engine.step()
    engine.abort(0)
    engine.abort(1)
    engine.abort(99)
    assert not engine.has_work
    stats = engine.stats()
    assert (stats.blocks_active, stats.running, stats.waiting, stats.aborted_total) == (0, 0, 0, 2)
    engine.check_integrity()


def test_choices_differ_and_seeds_repeat():
    def choices():
        engine, _ = make_engine()
        from engine.fakes import params
        from isotherm.engine.messages import Submit

        for choice in range(3):
            engine.submit(Submit(choice, PROMPT, params(temperature=1.0, seed=7), choice))
        pieces = drain(engine)
        return [answer(pieces[choice]) for choice in range(3)]

    first = choices()
    assert first == choices()
    assert len({tuple(tokens) for tokens in first}) == 3


def test_stats_add_up():
    engine, _ = make_engine()
    submit(engine, 0, PROMPT, max_tokens=4)
    drain(engine)
    submit(engine, 1, PROMPT, max_tokens=4)
    drain(engine)
    stats = engine.stats()
    assert (stats.prompt_tokens_total, stats.cached_tokens_total, stats.generated_tokens_total) == (10, 4, 8)
    assert (stats.finished_total, stats.steps_total) == (2, 8)
    assert stats.blocks_cached == 2
    assert stats.busy_seconds_total > 0


REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(1, 40),
        st.integers(0, 12),
        st.integers(1, 24),
        st.booleans(),
    ),
    min_size=1,
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(requests=REQUESTS, mode=st.sampled_from(MODES), blocks=st.integers(18, 40), arrivals=st.randoms())
def test_any_crowd_gives_solo_answers(requests, mode, blocks, arrivals):
    """Shared prefixes, arrivals at any time, any pool size: each answer is that of a run alone.

    In deterministic mode this holds for a model whose logits depend on how every token was computed.
    """
    bounds = limits(pool_tokens=blocks * 4, max_model_len=70, max_num_seqs=5, **mode)
    engine, _ = make_engine(bounds)
    asked, got = {}, {}
    for sequence, (family, shared, own, length, greedy) in enumerate(requests):
        prompt = [2 + (family * 13 + index) % 60 for index in range(shared)] + [3 + sequence] * own
        fields = {"max_tokens": length, "temperature": 0.0 if greedy else 1.0, "seed": sequence}
        asked[sequence] = (prompt, fields)
        submit(engine, sequence, prompt, **fields)
        for _ in range(arrivals.randrange(4)):
            for piece in engine.step() if engine.has_work else ():
                got.setdefault(piece.sequence, []).append(piece)
            engine.check_integrity()
    for sequence, pieces in drain(engine).items():
        got.setdefault(sequence, []).extend(pieces)
    for sequence, (prompt, fields) in asked.items():
        assert answer(got[sequence]) == solo(bounds, prompt, **fields)
    assert engine.stats().blocks_active == 0


@pytest.mark.parametrize("mode", MODES)
def test_thousands_of_requests_with_aborts_leak_nothing(mode):
    rng = random.Random(5)
    engine, _ = make_engine(limits(pool_tokens=160, max_model_len=80, **mode))
    unfinished, finished, total = set(), 0, 3_000
    for sequence in range(total):
        prompt = [2 + (rng.randrange(3) * 17 + i) % 60 for i in range(rng.randrange(1, 20))]
        submit(engine, sequence, prompt, max_tokens=rng.randrange(0, 8))
        unfinished.add(sequence)
        if rng.random() < 0.2:
            victim = rng.choice(sorted(unfinished)[-20:])
            engine.abort(victim)
            unfinished.discard(victim)
        while len(unfinished) > rng.randrange(30):
            for piece in engine.step():
                if piece.finish:
                    finished += 1
                    unfinished.discard(piece.sequence)
        if sequence % 100 == 0:
            engine.check_integrity()
    finished += len(drain(engine))
    stats = engine.stats()
    assert stats.finished_total + stats.aborted_total == total
    assert stats.finished_total == finished
    assert stats.aborted_total > 400
    assert (stats.blocks_active, stats.running, stats.waiting) == (0, 0, 0)


def test_integrity_check_names_a_leak():
    engine, _ = make_engine()
    engine._blocks.allocate(1)
    with pytest.raises(Exception, match="block 0 counts 1 holders but 0 sequences list it"):
        engine.check_integrity()


def test_hash_model_notices_a_wrong_block():
    """The fake is a detector: exchanging two blocks of a sequence changes its answer."""
    engine, _ = make_engine()
    submit(engine, 0, list(range(2, 14)), max_tokens=6)
    engine.step()
    blocks = engine.scheduler.running[0].blocks
    blocks[0], blocks[1] = blocks[1], blocks[0]
    assert answer(drain(engine)[0]) != solo(limits(), list(range(2, 14)), max_tokens=6)[1:]


def test_logits_of_the_fake_are_sane():
    engine, runner = make_engine()
    submit(engine, 0, PROMPT)
    (forward,) = engine.scheduler.schedule().forwards
    logits = runner.run(forward)
    assert logits.shape == (1, VOCAB)
    assert torch.isfinite(logits).all()
    assert math.isclose(float(logits.std()), 3.0, rel_tol=0.5)
