"""Clients that people use: the openai package, and curl."""

from __future__ import annotations

import json
import subprocess

import openai
import pytest

from isotherm.base.errors import EngineDied
from isotherm.base.outcome import Channel, Delta, Finish, FinishReason, Usage
from support.scripted_backend import ScriptedBackend, piece
from support.serving import CHAT, running

MESSAGES = [{"role": "user", "content": "Hi"}]


def thinking(turn):
    if turn.sampling.seed == 666:
        yield piece(turn, "half")
        yield EngineDied("killed")
    yield piece(turn, "Hm. ", Channel.REASONING)
    for text in ("Hello", " wörld", "!"):
        yield piece(turn, text)
    yield Delta(finish=Finish(FinishReason.STOP, Usage(0, 5, 2, 1)))


@pytest.fixture(scope="module")
def server():
    with running(ScriptedBackend(thinking), api_keys=("k1", "k2")) as found:
        yield found


@pytest.fixture
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="k2", max_retries=0)


def test_a_whole_chat(client):
    answer = client.chat.completions.create(
        model="m", messages=MESSAGES, temperature=0.5, logprobs=True, top_logprobs=1, n=2, seed=3,
        extra_body={"top_k": 3},
    )  # fmt: skip
    assert [choice.message.content for choice in answer.choices] == ["Hello wörld!"] * 2
    assert answer.choices[0].message.reasoning_content == "Hm. "
    assert answer.choices[0].logprobs.content[4].top_logprobs[0].token == "A"
    assert answer.usage.completion_tokens_details.reasoning_tokens == 2
    assert answer.usage.prompt_tokens_details.cached_tokens == 2
    assert answer.isotherm["sampling"]["top_k"] == {"value": 3, "origin": "request"}


def test_a_streamed_chat(client):
    stream = client.chat.completions.create(
        model="m", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Hello wörld!"
    assert chunks[-1].usage.completion_tokens == 5
    assert chunks[-2].choices[0].finish_reason == "stop"


def test_the_client_s_own_accumulation_of_a_stream(client):
    with client.chat.completions.stream(model="m", messages=MESSAGES) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.content == "Hello wörld!"
    assert final.choices[0].finish_reason == "stop"


async def test_the_asynchronous_client(server):
    async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="k1") as client:
        answer = await client.chat.completions.create(model="m", messages=MESSAGES)
        assert answer.choices[0].message.content == "Hello wörld!"
        stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        texts = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(texts) == "Hello wörld!"


def test_legacy_completions(client):
    answer = client.completions.create(model="m", prompt=["a", "b"], echo=True, logprobs=1, max_tokens=50)
    assert [choice.text for choice in answer.choices] == ["aHm. Hello wörld!", "bHm. Hello wörld!"]
    assert answer.choices[0].logprobs.text_offset[0] == 0
    stream = client.completions.create(model="m", prompt="a", stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == "Hm. Hello wörld!"


def test_models(client):
    assert [model.id for model in client.models.list()] == ["m"]
    assert client.models.retrieve("m").id == "m"


def test_errors_become_the_client_s_exceptions(client, server):
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="m", messages=MESSAGES, temperature=3)
    assert refused.value.param == "temperature"
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.chat.completions.create(model="gpt-4", messages=MESSAGES)
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=server.url + "/v1", api_key="wrong").models.list()
    with pytest.raises(openai.InternalServerError, match="killed"):
        client.chat.completions.create(model="m", messages=MESSAGES, seed=666)


def test_a_stream_that_breaks_is_an_exception_not_a_short_answer(client):
    stream = client.chat.completions.create(model="m", messages=MESSAGES, seed=666, stream=True)
    texts = []
    with pytest.raises(openai.APIError, match="killed"):
        texts += [chunk.choices[0].delta.content or "" for chunk in stream]


def curl(*arguments):
    command = ["curl", "--silent", "--show-error", "--max-time", "10", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_curl(server):
    key = ("-H", "Authorization: Bearer k1")
    body = json.dumps({"messages": MESSAGES})
    whole = curl(*key, server.url + CHAT, "--json", body)
    assert json.loads(whole)["choices"][0]["message"]["content"] == "Hello wörld!"
    streamed = curl(
        *key, "--no-buffer", "-i", server.url + CHAT, "--json", json.dumps({"messages": MESSAGES, "stream": True})
    )
    head, _, events = streamed.partition("\n\n")
    assert "x-isotherm-sampling:" in head.lower()
    assert events.endswith("data: [DONE]\n\n")
    form = curl(*key, server.url + CHAT, "-d", body)
    assert json.loads(form)["error"]["code"] == "unsupported_media_type"
    chunked = curl(*key, server.url + CHAT, "--json", body, "-H", "Transfer-Encoding: chunked")
    assert json.loads(chunked)["object"] == "chat.completion"
