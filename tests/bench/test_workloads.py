"""Prompts are seeded, of the wanted length, and begin differently."""

import random

import pytest

from isotherm.bench.workloads import TASKS, Calibration, PromptLength, Workload, kind_of, passage, prompt


def text_of(request):
    return request["messages"][0]["content"]


def test_the_same_seed_and_index_give_the_same_request():
    one, two = Workload(seed=3), Workload(seed=3)
    assert one.request(5, Calibration()) == two.request(5, Calibration())
    assert text_of(one.request(5, Calibration())) != text_of(Workload(seed=4).request(5, Calibration()))


def test_no_two_prompts_begin_alike():
    starts = {text_of(Workload().request(index, Calibration())).split()[0] for index in range(200)}
    assert len(starts) > 190


def test_kinds_take_turns():
    assert {kind_of(index) for index in range(len(TASKS))} == set(TASKS)
    assert "Python program" in prompt(0, list(TASKS).index("code"), 100)


@pytest.mark.parametrize("words", [1, 3, 50, 1500])
def test_a_prompt_has_the_words_asked_for(words):
    assert len(prompt(1, 2, words).split()) == words


def test_a_passage_of_no_words_is_empty():
    assert passage(random.Random(0), 0) == []


def test_calibration_finds_the_line_through_two_prompts():
    calibration = Calibration.fit([(20, 62), (220, 322)])
    assert calibration.per_word == pytest.approx(1.3)
    assert calibration.overhead == pytest.approx(36)
    assert calibration.words(1500) == round((1500 - 36) / 1.3)
    assert calibration.words(1) == 1


def test_lengths_stay_in_the_range_and_vary():
    workload, calibration = Workload(prompt_tokens=PromptLength(100, 200)), Calibration(0.0, 1.0)
    lengths = {len(text_of(workload.request(index, calibration)).split()) for index in range(100)}
    assert min(lengths) >= 100
    assert max(lengths) <= 200
    assert len(lengths) > 30


def test_only_what_was_given_is_sent():
    plain = Workload().request(0, Calibration())
    assert {"temperature", "ignore_eos"}.isdisjoint(plain)
    full = Workload(temperature=0.0, ignore_eos=True).request(0, Calibration())
    assert full["temperature"] == 0.0
    assert full["ignore_eos"] is True


def test_each_request_has_its_own_seed():
    assert len({Workload(seed=s).request(i, Calibration())["seed"] for s in range(5) for i in range(50)}) == 250
