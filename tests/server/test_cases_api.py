"""Cases of the api kinds that the server alone decides."""

from __future__ import annotations

import pytest

from isotherm.base.outcome import Channel, Delta, Finish, FinishReason, Usage
from support.cases import FOLDER, case, of_kind
from support.scripted_backend import ScriptedBackend, piece, say
from support.serving import CHAT, HI, in_process
from support.sse import events

LATER = {
    "234": "an upstream that closes its connection; our own engine's death is in test_stream_ends.py",
    "235": "forms in which an upstream may end; our own ending is in test_stream_ends.py",
}


ELSEWHERE = {
    "225": "chat/test_stop.py",
    "226": "chat/test_stop.py",
    "233": "chat/test_detokenize.py",
    "238": "server/test_abuse.py",
}
"""Cases about the text itself belong to the room that makes it."""


@pytest.mark.parametrize("case", of_kind("api-stop", "api-stream"))
def test_cases_of_other_rooms_have_a_test_there(case):
    if case["id"] not in LATER:
        home = FOLDER.parent / ELSEWHERE[case["id"]]
        assert case["id"] in home.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", of_kind("api-messages"))
async def test_messages(case):
    bodies = case["input"].get("bodies") or [case["input"]["body"]]
    statuses = case["expect"].get("status", [200] * len(bodies))
    async with in_process() as http:
        answers = [await http.post(CHAT, json=body) for body in bodies]
    assert [answer.status_code for answer in answers] == statuses
    for answer in answers:
        if answer.status_code != 200:
            assert answer.json()["error"].keys() == {"message", "type", "param", "code"}


async def test_misspelt_fields_warn_with_a_suggestion_or_are_refused():
    body = case("241")["input"]["body"]
    async with in_process() as http:
        report = (await http.post(CHAT, json=body)).json()["isotherm"]
    assert {warning["param"] for warning in report["warnings"]} == {"temprature", "thinkng"}
    assert "Did you mean temperature?" in report["warnings"][0]["message"]
    assert report["sampling"]["temperature"] == {"value": 1.0, "origin": "protocol"}
    async with in_process(strict=True) as http:
        refused = await http.post(CHAT, json=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "temprature"


@pytest.mark.parametrize("case", of_kind("api-logprobs", without={"231": "test_every_token_has_one_entry"}))
async def test_forms_of_top_logprobs(case):
    async with in_process() as http:
        answers = [await http.post(CHAT, json=HI | fields) for fields in case["input"]["requests"]]
    assert [answer.status_code for answer in answers] == [int(str(status)[:3]) for status in case["expect"]["status"]]
    for answer, rivals in zip(answers, (0, 0, 0, 5), strict=False):
        entries = answer.json()["choices"][0]["logprobs"]["content"]
        assert len(entries) == len("Hello world.")
        assert all(len(entry["top_logprobs"]) == rivals for entry in entries)


async def test_every_token_has_one_entry():
    chunks = case("231")["input"]["chunks"]
    whole = "".join(chunks)
    reasoning, content = whole.split("</think>")

    def script(turn):
        yield piece(turn, reasoning, Channel.REASONING)
        yield Delta("", (1,), Channel.REASONING, piece(turn, "x").logprobs)
        yield piece(turn, content)
        yield Delta(finish=Finish(FinishReason.STOP, Usage(0, len(whole) - 7)))

    async with in_process(ScriptedBackend(script)) as http:
        streamed = events((await http.post(CHAT, json=HI | {"logprobs": True, "stream": True})).text)
        unstreamed = (await http.post(CHAT, json=HI | {"logprobs": True})).json()
    choices = [event["choices"][0] for event in streamed[:-1]]
    entries = [entry for choice in choices for entry in (choice["logprobs"] or {"content": []})["content"]]
    assert len(entries) == len(whole) - 7
    assert unstreamed["choices"][0]["logprobs"]["content"] == entries
    for choice in choices:
        text = choice["delta"].get("reasoning_content") or choice["delta"].get("content")
        if choice["logprobs"] and text:
            assert "".join(entry["token"] for entry in choice["logprobs"]["content"]) == text


@pytest.mark.parametrize("case", of_kind("api-usage"))
async def test_usage(case):
    counts = case["input"].get("raw_tokens", {"reasoning": 0, "close_tag": 0, "content": 3})
    prompt_tokens = case["input"].get("prompt_tokens", 11)

    def script(_turn):
        yield Delta("a" * counts["content"], tuple(range(counts["content"])))
        yield Delta(finish=Finish(FinishReason.STOP, Usage(0, sum(counts.values()), 0, counts["reasoning"])))

    padding = "x" * (prompt_tokens - len("<user>\n"))
    body = {"messages": [{"role": "user", "content": padding}], "add_generation_prompt": False}
    backend = ScriptedBackend(script)
    stream = {"stream": True, "stream_options": {"include_usage": True}}
    async with in_process(backend) as http:
        usage = (await http.post(CHAT, json=body)).json()["usage"]
        streamed = events((await http.post(CHAT, json=body | stream)).text)
    assert usage["prompt_tokens"] == prompt_tokens
    assert usage["completion_tokens"] == sum(counts.values())
    assert usage["total_tokens"] == prompt_tokens + sum(counts.values())
    assert usage["completion_tokens_details"]["reasoning_tokens"] == counts["reasoning"]
    *others, last, done = streamed
    assert done == "[DONE]"
    assert last["choices"] == []
    assert last["usage"] == usage
    assert all(event["usage"] is None for event in others)


@pytest.mark.parametrize("case", of_kind("api-limits"))
async def test_limits(case):
    window, asked = case["input"]["context_window"], case["input"]["request"]
    backend = ScriptedBackend(say("ok"), max_model_len=window)
    overhead = len("<user>\n<assistant>")
    content = "x" * (asked["prompt_tokens"] - overhead)
    async with in_process(backend) as http:
        body = {"messages": [{"role": "user", "content": content}], "max_tokens": asked["max_tokens"]}
        answer = await http.post(CHAT, json=body)
    expect = case["expect"]
    if asked["prompt_tokens"] > window:
        assert answer.status_code == expect["status"]
        assert answer.json()["error"]["code"] == expect["code"]
        assert all(number in answer.json()["error"]["message"] for number in expect["message_contains"])
    else:
        room = window - asked["prompt_tokens"]
        report = answer.json()["isotherm"]
        assert report["sampling"]["max_tokens"] == {"value": room, "origin": "request"}
        (clamp,) = report["clamped"]
        assert (clamp["param"], clamp["asked"], clamp["used"]) == ("max_tokens", asked["max_tokens"], room)
        assert backend.turns[0].sampling.max_tokens == asked["max_tokens"]
