"""Deltas to a reader who may be slow, late, or gone."""

import asyncio

import pytest

from isotherm.backends.generation import BufferedGeneration
from isotherm.base.errors import EngineDied
from isotherm.base.outcome import CallPiece, Channel, Delta, Finish, FinishReason, TokenLogprob, Usage

END = Finish(FinishReason.STOP, Usage(3, 4))


def generation(aborts=None):
    return BufferedGeneration(3, lambda: aborts.append(1) if aborts is not None else None)


def piece(token, channel=Channel.CONTENT, finish=None):
    return Delta(str(token), (token,), channel, (TokenLogprob(token, -1.0, b""),), finish)


async def read(source):
    return [delta async for delta in source]


async def test_a_prompt_reader_gets_every_delta():
    source = generation()
    reader = asyncio.create_task(read(source))
    for token in range(3):
        await asyncio.sleep(0.001)
        source.push(piece(token, finish=END if token == 2 else None))
    deltas = await reader
    assert [(d.text, d.token_ids, d.finish) for d in deltas] == [("0", (0,), None), ("1", (1,), None), ("2", (2,), END)]


async def test_what_waits_is_merged():
    source = generation()
    for token in range(1000):
        source.push(piece(token))
    assert len(source._runs) == 1
    source.push(Delta(finish=END))
    (delta,) = await read(source)
    assert delta.token_ids == tuple(range(1000))
    assert [logprob.token_id for logprob in delta.logprobs] == list(range(1000))
    assert delta.text == "".join(map(str, range(1000)))
    assert delta.finish == END


async def test_channels_are_kept_apart_and_in_order():
    source = generation()
    for token, channel in enumerate([Channel.REASONING, Channel.REASONING, Channel.CONTENT]):
        source.push(piece(token, channel))
    source.push(Delta(finish=END))
    deltas = await read(source)
    assert [(d.channel, d.text, d.finish) for d in deltas] == [("reasoning", "01", None), ("content", "2", END)]


async def test_news_that_comes_while_the_reader_works_is_not_lost():
    source = generation()
    source.push(piece(0))
    seen = []
    async for delta in source:
        seen.append(delta.text)
        if len(seen) == 1:
            source.push(piece(1))
            source.push(piece(2, finish=END))
    assert seen == ["0", "12"]


async def test_abort_ends_the_stream_once():
    aborts = []
    source = generation(aborts)
    source.push(piece(0))
    await source.abort()
    await source.abort()
    source.push(piece(1))
    (delta,) = await read(source)
    assert (delta.text, delta.finish) == ("0", Finish(FinishReason.ABORT, Usage(3, 1)))
    assert aborts == [1]


async def test_abort_after_the_end_changes_nothing():
    aborts = []
    source = generation(aborts)
    source.push(piece(0, finish=END))
    await source.abort()
    assert aborts == []
    assert [delta.finish for delta in await read(source)] == [END]


async def test_death_comes_after_what_was_generated():
    source = generation()
    source.push(piece(0))
    source.fail(EngineDied("killed"))
    answer = aiter(source)
    assert (await anext(answer)).text == "0"
    with pytest.raises(EngineDied, match="killed"):
        await anext(answer)


async def test_death_after_the_end_is_no_news():
    source = generation()
    source.push(piece(0, finish=END))
    source.fail(EngineDied("killed"))
    assert len(await read(source)) == 1


async def test_pieces_of_calls_that_wait_are_merged_call_by_call():
    source = generation()
    source.push(piece("a"))
    for index in range(2):
        source.push(Delta(channel=Channel.CALLS, calls=(CallPiece(index, id=f"c{index}", name="f"),)))
        for text in ("{", "}"):
            source.push(Delta(channel=Channel.CALLS, calls=(CallPiece(index, arguments=text),)))
        source.push(Delta(channel=Channel.CALLS, calls=(CallPiece(index, done=True),)))
    source.push(Delta(finish=END))
    text, calls, end = await read(source)
    assert (text.text, text.calls, end.finish) == ("a", (), END)
    assert calls.calls == tuple(CallPiece(index, f"c{index}", "f", "{}", True) for index in range(2))
