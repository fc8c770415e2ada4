"""Stop strings: found across pieces, released as early as possible, the same for every way of cutting."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from isotherm.chat.stop import StopMatcher
from support.cases import case


def run(pieces, stops, after=None):
    """Shown text and the stop string that was found."""
    matcher = StopMatcher(stops, after)
    shown = ""
    for piece in pieces:
        text, found = matcher.push(piece)
        shown += text
        if found is not None:
            return shown, found
    return shown + matcher.flush(), None


def by_hand(text, stops, after=None):
    """The definition: the stop string that ends first, of those the longest."""
    start = 0 if after is None else text.find(after) + len(after) if after in text else len(text)
    for end in range(start + 1, len(text) + 1):
        ended = [stop for stop in stops if end - len(stop) >= start and text.startswith(stop, end - len(stop))]
        if ended:
            longest = max(ended, key=len)
            return text[: end - len(longest)], longest
    return text, None


WORDS = st.text("abc", max_size=40)
STOPS = st.lists(st.text("abc", min_size=1, max_size=5), min_size=1, max_size=3)


@given(WORDS, STOPS, st.integers(1, 5), st.sampled_from([None, "ab"]))
@example("aabaab", ["aab", "ab"], 1, None)
@example("abab", ["babab", "aba"], 2, None)
def test_every_cut_gives_what_the_definition_says(text, stops, size, after):
    pieces = [text[index : index + size] for index in range(0, len(text), size)]
    assert run(pieces, stops, after) == by_hand(text, stops, after)


@given(WORDS, STOPS)
def test_only_what_may_become_a_stop_string_is_held_back(text, stops):
    matcher = StopMatcher(stops)
    shown, found = "", None
    for index, character in enumerate(text):
        piece, found = matcher.push(character)
        shown += piece
        if found is not None:
            return
        seen = text[: index + 1]
        begun = max((n for stop in stops for n in range(len(stop)) if seen.endswith(stop[:n])), default=0)
        assert shown == seen[: len(seen) - begun]


def test_225_stops_count_only_behind_the_thinking():
    given_case = case("225")
    shown, found = run(given_case["input"]["chunks"], given_case["input"]["stop"], "</think>")
    expect = given_case["expect"]
    assert shown == expect["reasoning"] + "</think>" + expect["content"]
    assert found == "Question:"


def test_226_tag_text_and_stop_in_one_step():
    given_case = case("226")
    shown, found = run(given_case["input"]["chunks"], given_case["input"]["stop"], "</think>")
    assert shown == given_case["expect"]["reasoning"] + "</think>" + given_case["expect"]["content"]
    assert found == "END"


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_marker_may_be_cut_anywhere(size):
    text = "END</thi</think>xEND"
    assert run([text[i : i + size] for i in range(0, len(text), size)], ["END"], "</think>") == (
        "END</thi</think>x",
        "END",
    )


def test_a_long_stop_string_costs_little():
    """Hostile: every character continues or restarts a match; quadratic work would take minutes."""
    stop = "a" * 20_000 + "b"
    assert run(["a" * 100 for _ in range(2_000)], [stop]) == ("a" * 200_000, None)
