"""Thinking and answer apart: the cases, and the same result for every cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.base.outcome import Channel
from isotherm.chat.reasoning import Opening, ReasoningSplitter, Token, opening_of, split_whole
from support.cases import case, of_kind

R1_TEMPLATE = "{% set content = content.split('</think>')[-1] %}"
END_OF_SENTENCE = "<｜end▁of▁sentence｜>"


def raw_text(given_input):
    """The text that reaches the splitter: control tokens give no text."""
    return (given_input.get("raw") or "".join(given_input["chunks"])).replace(END_OF_SENTENCE, "")


def opening(given_input):
    template = R1_TEMPLATE if given_input["model_family"] == "deepseek_r1" else None
    return opening_of(given_input["prompt_tail"], template)


def streamed(pieces, start, natural):
    splitter = ReasoningSplitter(start)
    parts = [part for piece in pieces for part in splitter.push(piece)] + splitter.finish(natural=natural)
    return parts, splitter


def joined(parts, channel):
    return "".join(part.text for part in parts if part.channel is channel)


@pytest.mark.parametrize("given_case", of_kind("reasoning-split", "reasoning-stream"))
def test_case(given_case):
    given_input, expect = given_case["input"], given_case["expect"]
    whole = split_whole(raw_text(given_input), opening(given_input), natural=given_input["finish"] == "stop")
    assert whole.reasoning == expect["reasoning"]
    if "content" in expect:
        assert whole.content == expect["content"]
    assert whole.content.startswith(expect.get("content_starts", ""))


@pytest.mark.parametrize("given_case", of_kind("reasoning-split", "reasoning-stream"))
@pytest.mark.parametrize("size", [1, 3, 5, 17, None])
def test_case_streamed(given_case, size):
    """Every cut gives the same; only thinking that was an answer after all has been shown as thinking before."""
    given_input = given_case["input"]
    text, natural = raw_text(given_input), given_input["finish"] == "stop"
    pieces = [text[i : i + size] for i in range(0, len(text), size)] if size else given_input.get("chunks", [text])
    parts, splitter = streamed(pieces, opening(given_input), natural)
    whole = split_whole(text, opening(given_input), natural=natural)
    assert joined(parts, Channel.CONTENT) == whole.content
    assert joined(parts, Channel.REASONING) == (whole.content if whole.unterminated else whole.reasoning)
    assert splitter.stray_closes == whole.stray_closes


def test_100_is_marked_as_unterminated():
    assert split_whole("Ahoy!", Opening.THINKING, natural=True) == ("", "Ahoy!", True, 0)


def test_101_every_token_of_cut_thinking_is_reasoning():
    given_input = case("101")["input"]
    text = raw_text(given_input)
    splitter = ReasoningSplitter(opening(given_input))
    words = [word + " " for word in text.split(" ")]
    for place, word in enumerate(words):
        splitter.push(word, [Token(len(word), place)])
    splitter.finish(natural=False)
    assert splitter.reasoning_tokens == len(words)
    assert not splitter.unterminated


def test_108_counts_the_close_tags_that_it_drops():
    whole = split_whole(raw_text(case("108")["input"]), Opening.THINKING, natural=False)
    assert whole.stray_closes == 2
    assert "think>" not in whole.content


def test_a_model_may_open_its_thinking_itself():
    assert split_whole("<think>\nHm.\n</think>\n\nYes.", Opening.UNDECIDED, natural=True)[:2] == ("Hm.", "Yes.")
    assert split_whole("<think>\nHm.\n</think>\n\nYes.", Opening.THINKING, natural=True)[:2] == ("Hm.", "Yes.")
    assert split_whole(" Plain <think> text", Opening.UNDECIDED, natural=True)[:2] == ("", " Plain <think> text")


def test_a_quoted_block_in_the_answer_stays():
    text = "Hm.</think>Use\n<think>\nnotes\n</think>\nlike that."
    assert split_whole(text, Opening.THINKING, natural=True).content == "Use\n<think>\nnotes\n</think>\nlike that."


def test_indented_code_in_an_answer_keeps_its_white_space():
    code = "def f():\n        return 1\n\n\n    # </think>\n"
    assert split_whole(code, Opening.UNDECIDED, natural=True).content == code


ALPHABET = st.sampled_from(["<think>", "</think>", "<", "</", "think>", "\n", " ", "a", "`", "b c"])
RAW = st.lists(ALPHABET, max_size=30).map("".join)


@given(RAW, st.sampled_from(Opening), st.booleans(), st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_any_cut_gives_the_same(text, start, natural, sizes):
    pieces, rest = [], text
    while rest:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(rest[:size])
        rest = rest[size:]
    by_pieces, _ = streamed(pieces, start, natural)
    at_once, _ = streamed([text], start, natural)
    for channel in Channel:
        assert joined(by_pieces, channel) == joined(at_once, channel)


@given(RAW, st.sampled_from(Opening), st.booleans(), st.integers(1, 4))
def test_every_token_is_given_once_in_order_and_counted(text, start, natural, size):
    splitter = ReasoningSplitter(start)
    parts, place = [], 0
    for index in range(0, len(text), size):
        piece = text[index : index + size]
        # A token without text (part of a character) comes before one that ends the piece.
        parts += splitter.push(piece, [Token(0, place), Token(len(piece), place + 1)])
        place += 2
    parts += splitter.finish(natural=natural)
    assert [token for part in parts for token in part.tokens] == list(range(place))
    thinking = [token for part in parts if part.channel is Channel.REASONING for token in part.tokens]
    assert splitter.reasoning_tokens == len(thinking)


def test_218_the_close_tag_counts_as_reasoning():
    raw = case("218")["input"]["raw_tokens"]
    splitter = ReasoningSplitter(Opening.THINKING)
    tokens = ["r"] * raw["reasoning"] + ["</think>"] * raw["close_tag"] + ["c"] * raw["content"]
    for place, text in enumerate(tokens):
        splitter.push(text, [Token(len(text), place)])
    splitter.finish(natural=True)
    assert splitter.reasoning_tokens == 58


def test_text_that_cannot_become_a_tag_is_given_at_once():
    splitter = ReasoningSplitter(Opening.THINKING)
    assert [part.text for part in splitter.push("Let me see")] == ["Let me see"]
    assert splitter.push(" </thi") == []
    assert [part.text for part in splitter.push("s")] == [" </this"]


def test_nothing_is_dropped_from_the_arguments_of_a_call():
    text = '<｜DSML｜tool_calls>\n<｜DSML｜parameter name="text" string="true">a\n</think>\nb\n</think>\n'
    assert joined(streamed(list(text), Opening.ANSWER, True)[0], Channel.CONTENT) == text
