"""What a prompt says about its answer, and long prompts off the event loop."""

import threading

import pytest

from isotherm.backends.prompts import LONG_TEXT, Prepared, PromptEncoder
from isotherm.base.errors import RequestError
from isotherm.base.request import ChatPrompt, TextPrompt, TokenPrompt
from isotherm.chat.reasoning import Opening
from isotherm.model.checkpoint import open_checkpoint


@pytest.mark.parametrize(
    ("opening", "after", "after_if"),
    [
        (None, None, None),
        (Opening.THINKING, "</think>", None),
        (Opening.UNDECIDED, "</think>", "<think>"),
        (Opening.ANSWER, None, None),
    ],
)
def test_stop_strings_are_for_the_answer(opening, after, after_if):
    prepared = Prepared([1], opening)
    assert (prepared.stop_after, prepared.stop_after_if) == (after, after_if)
    assert (prepared.splitter() is None) is (opening is None)


@pytest.fixture(scope="module")
def encoder():
    return PromptEncoder(open_checkpoint("smollm2-135m").tokenizer)


@pytest.mark.model
@pytest.mark.parametrize("length", [100, LONG_TEXT])
@pytest.mark.parametrize("form", [TextPrompt, lambda text: ChatPrompt([{"role": "user", "content": text}])])
async def test_only_long_texts_leave_the_event_loop(encoder, monkeypatch, length, form):
    seen = []
    encode = encoder._encoder.encode
    monkeypatch.setattr(encoder._encoder, "encode", lambda prompt: seen.append(threading.get_ident()) or encode(prompt))
    prepared = await encoder.prepare(form("a b " * (length // 4)))
    assert len(prepared.ids) > 25
    assert (seen == [threading.get_ident()]) is (length < LONG_TEXT)


@pytest.mark.model
async def test_ids_are_taken_as_they_are(encoder):
    assert (await encoder.prepare(TokenPrompt([5, 6]))).ids == [5, 6]
    assert encoder.decode((await encoder.prepare(TextPrompt("round trip"))).ids) == "round trip"
    with pytest.raises(RequestError, match="outside the vocabulary"):
        encoder.decode([10**7])
