"""Pieces become deltas: bytes filled in, thinking told from the answer, every token kept with its text."""

import pytest

from isotherm.backends.assembly import Assembler
from isotherm.base.outcome import Channel, Finish, FinishReason, Usage
from isotherm.chat.calls import Offer
from isotherm.chat.dsml import DsmlParser
from isotherm.chat.reasoning import Opening, ReasoningSplitter
from isotherm.engine.messages import Piece, TokenScore


def bytes_of(token_id):
    return b"<%d>" % token_id


def assemble(texts, opening, *, reason=FinishReason.STOP, chunk=1):
    """Deltas of an answer with a token for each of ``texts``, ``chunk`` tokens a piece."""
    assembler = Assembler(bytes_of, None if opening is None else ReasoningSplitter(opening))
    deltas = []
    for start in range(0, len(texts), chunk):
        group = texts[start : start + chunk]
        ids = list(range(start, start + len(group)))
        last = start + chunk >= len(texts)
        finish = Finish(reason, Usage(5, len(texts))) if last else None
        scores = [TokenScore(token, -0.5, [(token, -0.5), (99, -2.0)]) for token in ids]
        deltas += assembler.deltas(Piece(0, "".join(group), ids, [len(t) for t in group], scores, [], finish))
    return deltas


def text_of(deltas, channel):
    return "".join(delta.text for delta in deltas if delta.channel is channel)


def ids_of(deltas, channel):
    return [token for delta in deltas if delta.channel is channel for token in delta.token_ids]


def test_without_reasoning_a_piece_is_a_delta():
    deltas = assemble(["a", "b"], None)
    assert [(d.text, d.token_ids, d.channel) for d in deltas] == [("a", (0,), "content"), ("b", (1,), "content")]
    (logprob,) = deltas[0].logprobs
    assert (logprob.data, logprob.top[1].data, logprob.top[1].logprob) == (b"<0>", b"<99>", -2.0)
    assert deltas[-1].finish.usage == Usage(5, 2)


@pytest.mark.parametrize("chunk", [1, 2, 3, 5])
def test_both_channels_keep_their_tokens(chunk):
    """Every generated token has one logprob entry, in reasoning deltas too, whatever comes together."""
    texts = ["Short plan", ".</th", "ink>", "Yes", ", 12"]
    deltas = assemble(texts, Opening.THINKING, chunk=chunk)
    assert text_of(deltas, Channel.REASONING) == "Short plan."
    assert text_of(deltas, Channel.CONTENT) == "Yes, 12"
    assert ids_of(deltas, Channel.REASONING) == [0, 1, 2]
    assert ids_of(deltas, Channel.CONTENT) == [3, 4]
    assert all([logprob.token_id for logprob in d.logprobs] == list(d.token_ids) for d in deltas)
    assert deltas[-1].finish.usage.reasoning_tokens == 3
    assert [d.finish is not None for d in deltas] == [False] * (len(deltas) - 1) + [True]


def test_thinking_cut_by_length_stays_thinking():
    deltas = assemble(["I ", "wonder"], Opening.THINKING, reason=FinishReason.LENGTH)
    assert (text_of(deltas, Channel.REASONING), text_of(deltas, Channel.CONTENT)) == ("I wonder", "")
    assert ids_of(deltas, Channel.REASONING) == [0, 1]


def called(texts, reason=FinishReason.STOP, matched=None):
    """Deltas of an answer that may call ``ping``, a token for each of ``texts``."""
    splitter, parser = ReasoningSplitter(Opening.ANSWER), DsmlParser(Offer({"ping": {}}), lambda: "c0")
    assembler = Assembler(bytes_of, splitter, parser)
    deltas = []
    for place, text in enumerate(texts):
        finish = Finish(reason, Usage(5, len(texts)), matched) if place == len(texts) - 1 else None
        score = TokenScore(place, -0.5, [])
        deltas += assembler.deltas(Piece(0, text, [place], [len(text)], [score], [], finish))
    return deltas


CALL = ["Ok.", "\n\n<", "｜DSML｜", 'invoke name="ping">\n', "</｜DSML｜invoke>", ""]


def test_calls_have_a_channel_of_their_own_and_every_token_is_given():
    deltas = called(CALL)
    assert text_of(deltas, Channel.CONTENT) == "Ok."
    pieces = [piece for delta in deltas for piece in delta.calls]
    assert (pieces[0].id, pieces[0].name, pieces[-1].done) == ("c0", "ping", True)
    assert "".join(piece.arguments for piece in pieces) == "{}"
    assert [token for delta in deltas for token in delta.token_ids] == list(range(len(CALL)))
    assert all([logprob.token_id for logprob in d.logprobs] == list(d.token_ids) for d in deltas)
    assert deltas[-1].finish.reason is FinishReason.TOOL_CALLS


@pytest.mark.parametrize(("reason", "matched"), [(FinishReason.LENGTH, None), (FinishReason.STOP, "stop")])
def test_a_call_that_was_cut_is_never_done(reason, matched):
    finish = called(CALL[:4], reason, matched)[-1].finish
    assert finish.reason is reason
    assert finish.unfinished_call == '\n\n<｜DSML｜invoke name="ping">\n'


def test_a_call_that_ends_with_the_answer_s_cut_is_done_and_the_cut_is_told():
    assert called(CALL, FinishReason.LENGTH)[-1].finish.reason is FinishReason.LENGTH
