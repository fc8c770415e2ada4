"""Function calls over HTTP: offered, called, streamed and whole, refused."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import openai
import pytest

from isotherm.base.outcome import FinishReason
from isotherm.chat.reasoning import Opening
from support.calling import calling
from support.cases import case
from support.completions import TOOLS
from support.scripted_backend import ScriptedBackend
from support.serving import CHAT, COMPLETIONS, HI, in_process, running
from support.sse import events, text_of

VALUE = '<｜DSML｜parameter name="mount" string="true">/data</｜DSML｜parameter>\n'
DISK = f'<｜DSML｜invoke name="disk">\n{VALUE}</｜DSML｜invoke>\n'
PING = '<｜DSML｜invoke name="ping">\n</｜DSML｜invoke>\n'
UNKNOWN = '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="rm_rf">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>'
CUT = f'<｜DSML｜tool_calls>\n{PING}<｜DSML｜invoke name="disk">\n<｜DSML｜parameter name="mount" string="true">/da'


def block(*calls: str) -> str:
    return f"<｜DSML｜tool_calls>\n{''.join(calls)}</｜DSML｜tool_calls>"


async def ask(backend: ScriptedBackend, **fields: Any) -> Any:
    """The choice of a whole answer."""
    async with in_process(backend) as http:
        answer = await http.post(CHAT, json=HI | {"tools": TOOLS} | fields)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]


async def stream(backend: ScriptedBackend, **fields: Any) -> list[Any]:
    async with in_process(backend) as http:
        answer = await http.post(CHAT, json=HI | {"tools": TOOLS, "stream": True} | fields)
    assert answer.status_code == 200, answer.text
    return events(answer.text)


def calls_of(found: Iterable[Any]) -> list[dict[str, Any]]:
    """Calls put together as clients do."""
    calls: list[dict[str, Any]] = []
    deltas = (choice["delta"] for event in found if event != "[DONE]" for choice in event["choices"])
    for piece in (piece for delta in deltas for piece in delta.get("tool_calls", ())):
        if "id" in piece:
            assert piece["index"] == len(calls)
            calls.append({"id": piece["id"], "type": piece["type"], "function": dict(piece["function"])})
        else:
            assert piece.keys() == {"index", "function"}
            calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
    return calls


def bare(calls: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]


async def test_calls_of_a_whole_answer():
    choice = await ask(calling("\n\n" + block(DISK, PING)))
    message = choice["message"]
    assert message["content"] is None
    assert bare(message["tool_calls"]) == [("disk", {"mount": "/data"}), ("ping", {})]
    assert all(call["type"] == "function" and call["id"].startswith("call_") for call in message["tool_calls"])
    assert len({call["id"] for call in message["tool_calls"]}) == 2
    assert choice["finish_reason"] == "tool_calls"
    assert "unfinished_tool_call" not in choice


@pytest.mark.parametrize("size", [1, 3, 17, 1000])
async def test_calls_of_a_stream_are_those_of_the_whole(size):
    text = "Looking.\n\n" + block(DISK, PING)
    found = await stream(calling(text, size=size))
    whole = await ask(calling(text, size=size))
    assert bare(calls_of(found)) == bare(whole["message"]["tool_calls"])
    assert text_of(found) == whole["message"]["content"] == "Looking."
    assert found[-2]["choices"][0]["finish_reason"] == whole["finish_reason"] == "tool_calls"
    assert found[-1] == "[DONE]"
    deltas = [event["choices"][0]["delta"] for event in found[:-1]]
    assert all(delta.get("tool_calls", [1]) for delta in deltas)


async def test_arguments_are_streamed_while_they_are_written():
    found = await stream(calling(block(DISK), size=1))
    deltas = [event["choices"][0]["delta"] for event in found[:-1]]
    pieces = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert pieces[0]["function"] == {"name": "disk", "arguments": ""}
    assert len(pieces) > len("/data")


async def test_thinking_is_told_apart_and_nothing_in_it_is_called():
    text = f"Maybe {block(PING)}?</think>\n\n{block(DISK)}"
    message = (await ask(calling(text, opening=Opening.THINKING)))["message"]
    assert message["reasoning_content"] == f"Maybe {block(PING)}?"
    assert bare(message["tool_calls"]) == [("disk", {"mount": "/data"})]


async def test_a_call_that_was_not_offered_is_text():
    text = "So.\n\n" + UNKNOWN
    choice = await ask(calling(text))
    assert choice["message"] == {"role": "assistant", "content": text, "refusal": None}
    assert choice["finish_reason"] == "stop"
    found = await stream(calling(text))
    assert (text_of(found), calls_of(found)) == (text, [])


@pytest.mark.parametrize("finish", [FinishReason.LENGTH, FinishReason.STOP])
async def test_half_a_call_is_not_presented_as_one(finish):
    how = {"finish": finish, "matched": "/da" if finish is FinishReason.STOP else None}
    choice = await ask(calling(CUT, **how))
    assert bare(choice["message"]["tool_calls"]) == [("ping", {})]
    assert choice["unfinished_tool_call"].startswith('\n<｜DSML｜invoke name="disk">')
    assert choice["finish_reason"] == ("length" if finish is FinishReason.LENGTH else "tool_calls")
    last = (await stream(calling(CUT, **how)))[-2]["choices"][0]
    assert last["unfinished_tool_call"] == choice["unfinished_tool_call"]
    assert last["finish_reason"] == choice["finish_reason"]


async def test_no_whole_call_of_a_cut_answer():
    cut = block(DISK).partition("ta</")[0]
    choice = await ask(calling(cut, finish=FinishReason.LENGTH))
    assert choice["message"] == {"role": "assistant", "content": "", "refusal": None}
    assert choice["unfinished_tool_call"] == cut


async def test_text_behind_calls_is_kept_apart():
    choice = await ask(calling(block(PING) + "\n\nDone."))
    assert choice["message"]["content"] is None
    assert choice["text_after_tool_calls"] == "Done."


async def test_one_call_where_parallel_ones_are_not_wanted():
    choice = await ask(calling(block(PING, DISK)), parallel_tool_calls=False)
    assert bare(choice["message"]["tool_calls"]) == [("ping", {})]
    assert "disk" in choice["text_after_tool_calls"]


async def test_choices_have_calls_of_their_own():
    found = await stream(calling(block(DISK)), n=2)
    for index in range(2):
        mine = [e for e in found[:-1] if e["choices"] and e["choices"][0]["index"] == index]
        assert bare(calls_of(mine)) == [("disk", {"mount": "/data"})]


async def test_every_token_of_a_call_has_its_log_probability():
    text = "Hm.\n\n" + block(DISK)
    tokens = -(-len(text) // 7)
    whole = await ask(calling(text), logprobs=True)
    assert len(whole["logprobs"]["content"]) == tokens
    found = await stream(calling(text), logprobs=True)
    entries = [entry for e in found[:-1] for entry in (e["choices"][0]["logprobs"] or {"content": []})["content"]]
    assert entries == whole["logprobs"]["content"]
    assert bare(calls_of(found)) == [("disk", {"mount": "/data"})]


async def test_what_the_backend_is_asked():
    backend = calling("Ok.")
    extra = {"type": "function", "function": {"name": "bare", "description": None, "strict": False}}
    await ask(backend, tools=[*TOOLS, extra])
    prompt = backend.turns[0].prompt
    assert prompt.tools == [*TOOLS, {"type": "function", "function": {"name": "bare", "strict": False}}]
    assert (prompt.tool_choice, prompt.parallel_calls) == ("auto", True)
    named = {"type": "function", "function": {"name": "ping"}}
    await ask(backend, tool_choice=named, parallel_tool_calls=False)
    assert (backend.turns[1].prompt.tool_choice, backend.turns[1].prompt.parallel_calls) == (named, False)


async def test_choice_none_hides_the_tools_and_calls_stay_text():
    """Case 150, answered with the text, which tells more than an empty answer."""
    given = case("150")["input"]
    backend = calling(given["raw"])
    async with in_process(backend) as http:
        choice = (await http.post(CHAT, json=given["request"])).json()["choices"][0]
    assert backend.turns[0].prompt.tools == []
    assert (choice["message"]["content"], choice["finish_reason"]) == (given["raw"], "stop")
    assert "tool_calls" not in choice["message"]


async def test_named_and_required_choices():
    """Case 151."""
    given, expected = case("151")["input"], case("151")["expect"]
    raw = given["raw"].removeprefix("<｜DSML｜tool_calls>\n")
    found = []
    for body in given["requests"]:
        async with in_process(calling(raw)) as http:
            answer = await http.post(CHAT, json=HI | body)
        found.append(answer)
    assert [answer.status_code for answer in found] == expected["status"]
    whole = [answer.json()["choices"][0] for answer in (found[0], found[2])]
    streamed = [events(answer.text) for answer in (found[1], found[3])]
    for choice, chunks in zip(whole, streamed, strict=True):
        assert bare(choice["message"]["tool_calls"]) == bare(calls_of(chunks)) == [("get_weather", {"city": "Vilma"})]
        assert choice["finish_reason"] == chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"


async def test_a_call_that_lacks_an_argument_is_delivered_as_it_is():
    """Case 152: nothing is invented."""
    given = case("152")["input"]
    choice = await ask(calling(given["raw"]), **given["request"])
    assert bare(choice["message"]["tool_calls"]) == [("write_file", {"path": "a.txt"})]


PLAIN = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [PLAIN, PLAIN]}, "tools"),
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [PLAIN], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
        ({"tools": [PLAIN], "tool_choice": "any"}, "tool_choice"),
        ({"tools": [PLAIN], "parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ({"functions": [{"name": "f"}]}, "functions"),
    ],
)
async def test_what_cannot_be_offered_is_refused(fields, param):
    async with in_process(calling("Ok.")) as http:
        answer = await http.post(CHAT, json=HI | fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


async def test_a_model_whose_calls_are_not_understood_refuses_tools():
    async with in_process() as http:
        refused = [await http.post(path, json=HI | {"tools": [PLAIN]}) for path in (CHAT, "/tokenize")]
        fine = await http.post(CHAT, json=HI | {"tools": [], "tool_choice": "auto"})
        elsewhere = await http.post(COMPLETIONS, json={"prompt": "Hi", "tools": [PLAIN]})
    assert [answer.status_code for answer in refused] == [400, 400]
    assert "cannot tell calls of 'm' from its text" in refused[0].json()["error"]["message"]
    assert fine.status_code == 200
    assert elsewhere.status_code == 400


def test_the_client_library_runs_a_tool_round():
    backend = calling("Looking.\n\n" + block(DISK))
    ask = {"model": "m", "messages": HI["messages"], "tools": TOOLS}
    with running(backend) as server, openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        message = client.chat.completions.create(**ask).choices[0].message
        with client.chat.completions.stream(**ask) as chunks:
            final = chunks.get_final_completion().choices[0]
        result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "12 %"}
        client.chat.completions.create(**ask | {"messages": [*ask["messages"], message, result]})
    assert message.tool_calls[0].function.name == final.message.tool_calls[0].function.name == "disk"
    assert json.loads(final.message.tool_calls[0].function.arguments) == {"mount": "/data"}
    assert (final.message.content, final.finish_reason) == ("Looking.", "tool_calls")
    assistant, tool = backend.turns[-1].prompt.messages[1:]
    assert assistant["tool_calls"][0]["function"]["arguments"] == '{"mount": "/data"}'
    assert tool["tool_call_id"] == message.tool_calls[0].id
