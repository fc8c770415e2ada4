"""Stop strings and thinking: strings in a thought do not end the answer, wherever the pieces are cut."""

import pytest

from isotherm.engine.text import OpeningStopMatcher


def run(text, size):
    matcher = OpeningStopMatcher(["END"], "</think>", "<think>")
    shown = ""
    for start in range(0, len(text), size):
        released, matched = matcher.push(text[start : start + size])
        shown += released
        if matched is not None:
            return shown, matched
    return shown + matcher.flush(), None


@pytest.mark.parametrize("size", [1, 3, 17, 100])
@pytest.mark.parametrize(
    ("text", "shown", "matched"),
    [
        ("<think>END</think>a END b", "<think>END</think>a ", "END"),
        ("\n <think>END</think>ok", "\n <think>END</think>ok", None),
        ("an END here", "an ", "END"),
        ("END", "", "END"),
        ("<thin END", "<thin ", "END"),
        ("  <th", "  <th", None),
        ("", "", None),
        ("<think>EN", "<think>EN", None),
    ],
)
def test_only_a_thought_that_was_opened_protects(text, shown, matched, size):
    assert run(text, size) == (shown, matched)
