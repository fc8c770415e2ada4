"""The chat route: answers whole and streamed, choices, reasoning, what the backend is asked."""

from __future__ import annotations

from isotherm.base.outcome import Channel, Delta, Finish, FinishReason, Usage
from isotherm.base.request import ChatPrompt
from support.scripted_backend import ScriptedBackend, piece, say
from support.serving import CHAT, HI, in_process
from support.sse import events, text_of


async def ask(backend=None, **fields):
    async with in_process(backend) as http:
        answer = await http.post(CHAT, json=HI | fields)
    assert answer.status_code == 200, answer.text
    return answer


async def test_a_whole_answer_has_the_protocol_s_shape():
    answer = (await ask()).json()
    assert answer["id"].startswith("chatcmpl-")
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "m"
    (choice,) = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Hello world.", "refusal": None}
    assert (choice["finish_reason"], choice["stop_reason"], choice["logprobs"]) == ("stop", None, None)
    assert "reasoning_end" not in choice
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + 3
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}


async def test_a_stream_opens_with_role_and_report_and_ends_with_finish_and_done():
    answer = await ask(stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    first, *pieces, last, done = events(answer.text)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert first["isotherm"]["sampling"]["temperature"]["origin"] == "protocol"
    assert [event["choices"][0]["delta"] for event in pieces] == [
        {"content": "Hello"},
        {"content": " world"},
        {"content": "."},
    ]
    assert last["choices"][0] | {"finish_reason": "stop", "delta": {}} == last["choices"][0]
    assert done == "[DONE]"
    assert len({event["id"] for event in (first, *pieces, last)}) == 1
    assert "usage" not in first


async def test_awkward_text_survives_the_prepared_chunks():
    pieces = ('"quotes" \\ back', "\n\r\t\0", "emoji 😀 ü", "line\u2028para\u2029next\x85", "@@", "data: [DONE]\n\n")
    answer = await ask(ScriptedBackend(say(*pieces)), stream=True)
    assert text_of(events(answer.text)) == "".join(pieces)
    assert not set("\u2028\u2029\x85") & set(answer.text)


async def test_choices_come_apart_and_share_one_prompt():
    backend = ScriptedBackend(lambda turn: say(f"I am {turn.choice}", pause=0.001)(turn))
    answer = (await ask(backend, n=3, seed=7)).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert [choice["message"]["content"] for choice in answer["choices"]] == ["I am 0", "I am 1", "I am 2"]
    assert answer["usage"]["prompt_tokens"] == len("<user>Hi\n<assistant>")
    assert answer["usage"]["completion_tokens"] == 3
    assert [turn.choice for turn in backend.turns] == [0, 1, 2]
    assert {turn.sampling.seed for turn in backend.turns} == {7}
    assert len({turn.request_id for turn in backend.turns}) == 3


async def test_streamed_choices_each_open_and_end_once():
    backend = ScriptedBackend(lambda turn: say("a", "b", f"{turn.choice}", pause=0.001)(turn))
    found = events((await ask(backend, n=3, stream=True, stream_options={"include_usage": True})).text)
    assert [text_of(found, index) for index in range(3)] == ["ab0", "ab1", "ab2"]
    choices = [event["choices"][0] for event in found[:-2]]
    for index in range(3):
        mine = [choice for choice in choices if choice["index"] == index]
        assert mine[0]["delta"]["role"] == "assistant"
        assert [choice["finish_reason"] for choice in mine][-1] == "stop"
        assert sum(choice["finish_reason"] is not None for choice in mine) == 1
    assert sum("isotherm" in event for event in found[:-1]) == 1
    assert found[-2]["usage"]["completion_tokens"] == 9


async def test_reasoning_has_a_field_of_its_own():
    def script(turn):
        yield piece(turn, "Let me think.", Channel.REASONING)
        yield piece(turn, "Four.")
        yield Delta(finish=Finish(FinishReason.STOP, Usage(0, 18, 0, 13), "<end>"))

    whole = (await ask(ScriptedBackend(script))).json()
    assert whole["choices"][0]["message"]["reasoning_content"] == "Let me think."
    assert whole["choices"][0]["message"]["content"] == "Four."
    assert whole["choices"][0]["stop_reason"] == "<end>"
    found = events((await ask(ScriptedBackend(script), stream=True)).text)
    assert text_of(found, key="reasoning_content") == "Let me think."
    assert text_of(found) == "Four."


async def test_thinking_that_never_closed_is_the_answer_and_is_marked():
    def script(turn):
        yield piece(turn, "Ahoy!", Channel.REASONING)
        yield piece(turn, "Ahoy!")
        yield Delta(finish=Finish(FinishReason.STOP, Usage(0, 5, 0, 5), unterminated=True))

    (choice,) = (await ask(ScriptedBackend(script))).json()["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Ahoy!", "refusal": None}
    assert choice["reasoning_end"] == "unterminated"
    found = events((await ask(ScriptedBackend(script), stream=True)).text)
    assert text_of(found) == text_of(found, key="reasoning_content") == "Ahoy!"
    assert found[-2]["choices"][0]["reasoning_end"] == "unterminated"


async def test_thinking_that_used_up_all_tokens_stays_thinking_and_is_marked():
    def script(turn):
        yield piece(turn, "First I", Channel.REASONING)
        yield Delta(finish=Finish(FinishReason.LENGTH, Usage(0, 7, 0, 7)))

    (choice,) = (await ask(ScriptedBackend(script))).json()["choices"]
    assert (choice["message"]["content"], choice["message"]["reasoning_content"]) == ("", "First I")
    assert (choice["finish_reason"], choice["reasoning_end"]) == ("length", "starved")


async def test_the_backend_is_asked_for_exactly_what_was_sent():
    backend = ScriptedBackend()
    fields = {
        "temperature": 0.7, "top_p": 0.8, "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1,
        "presence_penalty": 0.2, "frequency_penalty": -0.3, "logit_bias": {"5": -100, "6": 2.5}, "seed": -3,
        "stop": ["a", "b"], "stop_token_ids": [7], "min_tokens": 2, "max_completion_tokens": 9, "max_tokens": 4,
        "ignore_eos": True, "logprobs": True, "top_logprobs": 2, "chat_template_kwargs": {"x": 1},
        "add_generation_prompt": False,
    }  # fmt: skip
    await ask(backend, **fields)
    (turn,) = backend.turns
    sampling = turn.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.7, 0.8, 5, 0.1)
    assert (sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty) == (1.1, 0.2, -0.3)
    assert sampling.logit_bias == {5: -100, 6: 2.5}
    assert (sampling.seed, sampling.stop, sampling.stop_token_ids) == (-3, ("a", "b"), (7,))
    assert (sampling.min_tokens, sampling.max_tokens, sampling.ignore_eos, sampling.logprobs) == (2, 9, True, 2)
    assert isinstance(turn.prompt, ChatPrompt)
    assert turn.prompt.template_kwargs == {"x": 1}
    assert turn.prompt.add_generation_prompt is False


async def test_null_is_absent_and_minus_one_turns_top_k_off():
    backend = ScriptedBackend()
    names = ("temperature", "stop", "seed", "max_tokens", "n", "logprobs", "stream", "stream_options", "tools", "store")
    answer = (await ask(backend, **dict.fromkeys(names), top_k=-1)).json()
    assert answer["isotherm"]["warnings"] == []
    assert answer["isotherm"]["sampling"]["temperature"]["origin"] == "protocol"
    assert answer["isotherm"]["sampling"]["top_k"] == {"value": 0, "origin": "request"}
    assert backend.turns[0].sampling.max_tokens == backend.info.max_model_len
    assert backend.turns[0].sampling.seed == answer["isotherm"]["sampling"]["seed"]["value"]


async def test_messages_reach_the_template_as_plain_text():
    backend = ScriptedBackend()
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "Ann"},
        {"role": "assistant", "content": "c", "reasoning": "r", "tool_calls": []},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]},
        {"role": "tool", "content": "4", "tool_call_id": "1"},
        {"role": "user", "content": ""},
    ]
    await ask(backend, messages=messages)
    prompt = backend.turns[0].prompt
    assert isinstance(prompt, ChatPrompt)
    assert list(prompt.messages) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "ab", "name": "Ann"},
        {"role": "assistant", "content": "c", "reasoning_content": "r"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function"}]},
        {"role": "tool", "content": "4", "tool_call_id": "1"},
        {"role": "user", "content": ""},
    ]


async def test_a_queue_that_fills_midway_refuses_all_choices_and_leaves_none_behind():
    backend = ScriptedBackend(max_queue=2)
    async with in_process(backend) as http:
        answer = await http.post(CHAT, json=HI | {"n": 3})
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "2"
    assert answer.json()["error"]["code"] == "queue_full"
    assert [generation.aborted for generation in backend.generations] == [True, True]


async def test_the_request_id_is_the_client_s_or_ours_but_turns_have_their_own():
    backend = ScriptedBackend()
    async with in_process(backend) as http:
        named = await http.post(CHAT, json=HI, headers={"x-request-id": "abc-1"})
        again = await http.post(CHAT, json=HI, headers={"x-request-id": "abc-1"})
        odd = await http.post(CHAT, json=HI, headers={"x-request-id": "a b\tc" * 50})
    assert named.headers["x-request-id"] == again.headers["x-request-id"] == "abc-1"
    assert len(odd.headers["x-request-id"]) == 32
    assert len({turn.request_id for turn in backend.turns}) == 3
