"""Cycles are found at every period and in any pieces; tables and code are left alone."""

import random

import pytest

from isotherm.bench.degenerate import KEY, CycleDetector, degenerate
from isotherm.bench.workloads import passage


def prose(seed, words=400):
    return " ".join(passage(random.Random(seed), words))


def noise(seed, length):
    draw = random.Random(f"noise {seed}")
    return "".join(draw.choices("abcdefghijklmnopqrstuvwxyz ,.", k=length))


def feed(text, size):
    detector = CycleDetector()
    for at in range(0, len(text), size):
        detector.feed(text[at : at + size])
    return detector


@pytest.mark.parametrize("size", [1, 4, 20, 333])
@pytest.mark.parametrize("period", [1, 2, 7, 31, 32, 33, 100, 517, 1470, 1999])
def test_every_period_is_found_whatever_the_pieces(period, size):
    unit = noise(period, period)
    text = noise(0, 700) + unit * max(4, 200 // period)
    detector = feed(text, size)
    assert detector.degenerate
    assert len(detector.unit) % period == 0
    assert detector.unit in unit * (2 + len(detector.unit) // period)


@pytest.mark.parametrize("size", [1, 7])
def test_two_appearances_are_not_yet_a_loop_three_are(size):
    unit = noise(3, 150)
    assert not feed("Once. " + unit * 2 + "!", size).degenerate
    assert feed("Once. " + unit * 3 + unit[:9] + "!", size).degenerate


def test_plain_prose_is_innocent():
    assert not any(degenerate(noise(seed, 5000)) for seed in range(20))


def test_a_ruler_is_innocent_and_a_page_of_dashes_is_not():
    assert not degenerate("Title\n" + "-" * 80 + "\nText that follows the ruler and ends.")
    assert degenerate("Title\n" + "-" * 200)


def test_a_table_with_changing_cells_is_innocent():
    rows = [f"| item {number} | {number * 37 % 101} | {number * number} |\n" for number in range(80)]
    assert not degenerate("".join(rows))


def test_a_loop_that_ended_still_counts():
    assert degenerate(noise(1, 300) + "I do not know. " * 20 + noise(2, 300))


def test_the_key_alone_is_no_period():
    key = "k" * 3 + noise(5, KEY)
    assert not degenerate(key + noise(6, 200) + key + noise(7, 200))


def test_an_empty_piece_changes_nothing():
    detector = feed("la la la la " * 20, 5)
    before = detector.unit
    assert detector.feed("")
    assert detector.unit == before
