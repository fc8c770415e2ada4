"""The legacy route: forms of prompt, echo, scoring, parallel lists of log-probabilities."""

from __future__ import annotations

import pytest

from isotherm.base.backend import Capability
from isotherm.base.request import TextPrompt, TokenPrompt
from support.scripted_backend import ScriptedBackend, piece, say
from support.serving import COMPLETIONS, in_process
from support.sse import events


async def ask(backend=None, **fields):
    async with in_process(backend) as http:
        answer = await http.post(COMPLETIONS, json=fields)
    assert answer.status_code == 200, answer.text
    return answer


@pytest.mark.parametrize(
    ("prompt", "turns"),
    [
        ("Hi", [TextPrompt("Hi")]),
        ("", [TextPrompt("")]),
        (["Hi", "Ho"], [TextPrompt("Hi"), TextPrompt("Ho")]),
        ([72, 105], [TokenPrompt([72, 105])]),
        ([[72], [105, 33]], [TokenPrompt([72]), TokenPrompt([105, 33])]),
    ],
)
async def test_forms_of_prompt(prompt, turns):
    backend = ScriptedBackend()
    answer = (await ask(backend, prompt=prompt)).json()
    assert [turn.prompt for turn in backend.turns] == turns
    assert [choice["text"] for choice in answer["choices"]] == ["Hello world."] * len(turns)
    assert answer["object"] == "text_completion"
    assert answer["isotherm"]["sampling"]["max_tokens"] == {"value": 16, "origin": "protocol"}


async def test_choices_of_several_prompts_are_numbered_by_prompt_and_usage_counts_each_prompt_once():
    backend = ScriptedBackend(lambda turn: say(f"{turn.prompt.text}{turn.choice}")(turn))
    answer = (await ask(backend, prompt=["a", "bcd"], n=2)).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert [choice["text"] for choice in answer["choices"]] == ["a0", "a1", "bcd0", "bcd1"]
    assert answer["usage"]["prompt_tokens"] == 4
    assert answer["usage"]["completion_tokens"] == 4


@pytest.mark.parametrize("prompt", ["Grüß", list("Grüß".encode())])
async def test_echo_starts_with_the_prompt_and_aligns_every_token(prompt):
    answer = (await ask(prompt=prompt, echo=True, logprobs=2)).json()
    (choice,) = answer["choices"]
    assert choice["text"] == "GrüßHello world."
    logprobs = choice["logprobs"]
    raw = "GrüßHello world.".encode()
    assert len(logprobs["tokens"]) == len(raw) == len(logprobs["text_offset"])
    assert logprobs["token_logprobs"][0] is None
    assert logprobs["top_logprobs"][0] is None
    assert all(number == -0.5 for number in logprobs["token_logprobs"][1:])
    assert logprobs["tokens"][:4] == ["G", "r", "bytes:\\xc3", "bytes:\\xbc"]
    assert logprobs["text_offset"][:8] == [0, 1, 2, 2, 3, 3, 4, 5]
    for token, offset in zip(logprobs["tokens"], logprobs["text_offset"], strict=True):
        assert token.startswith("bytes:") or choice["text"].startswith(token, offset)
    assert len(logprobs["top_logprobs"][5]) == 3


async def test_scoring_generates_nothing():
    backend = ScriptedBackend(say())
    answer = (await ask(backend, prompt="abc", echo=True, logprobs=0, max_tokens=0)).json()
    (choice,) = answer["choices"]
    assert choice["text"] == "abc"
    assert choice["logprobs"]["token_logprobs"] == [None, -0.5, -0.5]
    assert backend.turns[0].sampling.prompt_logprobs == 0
    assert backend.turns[0].sampling.max_tokens == 0
    assert answer["usage"]["completion_tokens"] == 0


async def test_a_prompt_that_fills_the_context_can_still_be_scored():
    backend = ScriptedBackend(say(), max_model_len=3)
    assert (await ask(backend, prompt="abc", echo=True, max_tokens=0)).json()["choices"][0]["text"] == "abc"
    async with in_process(ScriptedBackend(max_model_len=3)) as http:
        refused = await http.post(COMPLETIONS, json={"prompt": "abc"})
    assert refused.json()["error"]["code"] == "context_length_exceeded"


async def test_a_stop_token_without_text_is_listed_at_the_end():
    def script(turn):
        yield piece(turn, "ab")
        yield piece(turn, "\n").__class__("", (10,), logprobs=piece(turn, "\n").logprobs)
        yield from say()(turn)

    answer = (await ask(ScriptedBackend(script), prompt="x", logprobs=0)).json()
    assert answer["choices"][0]["logprobs"]["text_offset"] == [0, 1, 2]


async def test_a_stream_equals_the_whole():
    fields = {"prompt": ["ab", "c"], "echo": True, "logprobs": 1, "n": 2}
    whole = (await ask(**fields, seed=1)).json()
    found = events((await ask(**fields, seed=1, stream=True)).text)
    assert found[-1] == "[DONE]"
    assert "isotherm" in found[0]
    for choice in whole["choices"]:
        parts = [event["choices"][0] for event in found[:-1] if event["choices"][0]["index"] == choice["index"]]
        assert "".join(part["text"] for part in parts) == choice["text"]
        for name, wanted in choice["logprobs"].items():
            assert [item for part in parts if part["logprobs"] for item in part["logprobs"][name]] == wanted
        assert [part["finish_reason"] for part in parts][-1] == "stop"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": None}, "prompt"),
        ({}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": [1, "a"]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [300]}, "prompt"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "a", "logprobs": 21}, "logprobs"),
        ({"prompt": "a", "logprobs": True}, "logprobs"),
        ({"prompt": "a", "suffix": "b"}, "suffix"),
        ({"prompt": "a", "best_of": 2}, "best_of"),
        ({"prompt": ["a"] * 1025}, "prompt"),
        ({"prompt": ["a"] * 20, "n": 100}, "n"),
        ({"prompt": "a", "min_tokens": 17}, "min_tokens"),
    ],
)
async def test_refusals_name_the_field(fields, param):
    async with in_process() as http:
        answer = await http.post(COMPLETIONS, json=fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].startswith(param)


@pytest.mark.parametrize(
    ("missing", "fields"),
    [
        (Capability.LOGPROBS, {"logprobs": 1}),
        (Capability.PROMPT_LOGPROBS, {"logprobs": 1, "echo": True}),
        (Capability.SEED, {"seed": 1}),
    ],
)
async def test_what_a_backend_cannot_do_is_refused(missing, fields):
    backend = ScriptedBackend()
    backend.capabilities -= {missing}
    async with in_process(backend) as http:
        refused = await http.post(COMPLETIONS, json={"prompt": "a"} | fields)
        plain = await http.post(COMPLETIONS, json={"prompt": "a"})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "unsupported_parameter"
    assert plain.status_code == 200
