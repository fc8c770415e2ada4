"""Real clients against the real server: curl, the openai package, our own chat; streamed and not."""

import asyncio
import json
import subprocess
import sys

import openai
import pytest

from support.terminal import Terminal

pytestmark = pytest.mark.model
MODEL = "smollm2-135m"
ASK = [{"role": "user", "content": "Name the capital of France in one short sentence."}]


@pytest.fixture
def client(shared):
    with openai.OpenAI(base_url=f"{shared}/v1", api_key="unused", max_retries=0) as made:
        yield made


def curl(*words):
    result = subprocess.run(
        ["curl", "-sS", "--noproxy", "*", *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def post(shared, path, body, *words):
    return curl(*words, "-H", "Content-Type: application/json", "-d", json.dumps(body), shared + path)


def test_curl_gets_an_answer_with_usage_and_origins(shared):
    body = {"model": MODEL, "messages": ASK, "max_tokens": 24, "top_p": 0.9, "seed": 1}
    answer = json.loads(post(shared, "/v1/chat/completions", body))
    assert answer["choices"][0]["message"]["content"].strip()
    assert answer["usage"]["completion_tokens"] <= 24
    sampling = answer["isotherm"]["sampling"]
    assert sampling["temperature"] == {"value": 0.6, "origin": "operator"}
    assert sampling["top_p"] == {"value": 0.9, "origin": "request"}
    assert sampling["min_p"]["origin"] == "protocol"


def test_curl_reads_a_stream(shared):
    body = {"model": MODEL, "messages": ASK, "max_tokens": 24, "temperature": 0, "stream": True}
    lines = [line for line in post(shared, "/v1/chat/completions", body, "-N").splitlines() if line]
    assert lines[-1] == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1] if not line.startswith(":")]
    streamed = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"])
    whole = json.loads(post(shared, "/v1/chat/completions", {**body, "stream": False}))
    assert streamed == whole["choices"][0]["message"]["content"]
    assert "Paris" in streamed


def test_openai_sync(client):
    answer = client.chat.completions.create(
        model=MODEL, messages=ASK, max_tokens=24, temperature=0, logprobs=True, top_logprobs=2
    )
    assert "Paris" in answer.choices[0].message.content
    assert answer.choices[0].finish_reason in {"stop", "length"}
    entries = answer.choices[0].logprobs.content
    assert len(entries) == answer.usage.completion_tokens
    assert all(len(entry.top_logprobs) == 2 for entry in entries)


def test_openai_stream_with_usage(client):
    stream = client.chat.completions.create(
        model=MODEL, messages=ASK, max_tokens=24, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert chunks[-1].usage.completion_tokens >= 1
    assert chunks[-1].choices == []
    assert any(chunk.choices[0].finish_reason for chunk in chunks if chunk.choices)


def test_openai_legacy_completion(client):
    answer = client.completions.create(model=MODEL, prompt="One, two, three,", max_tokens=6, temperature=0)
    assert answer.choices[0].text.strip()
    assert answer.usage.prompt_tokens > 3


async def test_openai_async_many_at_once_each_gets_its_own(shared):
    async with openai.AsyncOpenAI(base_url=f"{shared}/v1", api_key="unused", max_retries=0) as client:
        words = ["red", "seven", "river", "bread", "March", "tiger"]
        answers = await asyncio.gather(
            *(
                client.chat.completions.create(
                    model=MODEL,
                    messages=[{"role": "user", "content": f"Repeat this word and nothing else: {word}"}],
                    max_tokens=12,
                    temperature=0,
                )
                for word in words
            )
        )
    texts = [answer.choices[0].message.content.lower() for answer in answers]
    right = sum(word.lower() in text for word, text in zip(words, texts, strict=True))
    strangers = [
        (word, text) for text, own in zip(texts, words, strict=True) for word in words if word != own and word in text
    ]
    assert right >= 4, texts
    assert not strangers


def test_openai_errors_have_their_classes(client):
    with pytest.raises(openai.NotFoundError, match="does not exist here"):
        client.chat.completions.create(model="gpt-none", messages=ASK)
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.chat.completions.create(model=MODEL, messages=ASK, temperature=9)


def test_openai_lists_the_model(client):
    assert [model.id for model in client.models.list()] == [MODEL]


def test_our_chat_on_a_terminal(shared):
    terminal = Terminal("chat", "--url", shared)
    terminal.say("/set temperature 0")
    terminal.expect("origin: request")
    terminal.say("/set max_tokens 24")
    terminal.say("Name the capital of France in one short sentence.")
    terminal.expect("Paris")
    figures = terminal.expect("protocol  ")
    assert "tokens/s" in figures
    assert "request   temperature 0" in figures
    terminal.say("/quit")
    assert terminal.wait() == 0


def test_our_chat_as_a_filter(shared):
    command = [sys.executable, "-m", "isotherm", "chat", "--url", shared, "--json", "--set", "max_tokens=8"]
    result = subprocess.run(command, input="Say hello.", capture_output=True, text=True, check=True, timeout=60)
    answer = json.loads(result.stdout)
    assert answer["usage"]["completion_tokens"] <= 8
    assert answer["isotherm"]["sampling"]["temperature"]["origin"] == "operator"
    assert answer["ttft_s"] > 0


def test_metrics_count_what_was_served_and_nothing_leaks(shared):
    series = dict(
        line.rsplit(" ", 1) for line in curl(f"{shared}/metrics").splitlines() if line and not line.startswith("#")
    )
    value = {name.split("{")[0]: float(number) for name, number in series.items()}
    assert value["isotherm_engine_generated_tokens_total"] > 0
    assert value["isotherm_queue_seconds_count"] > 0
    assert value["isotherm_queue_seconds_sum"] > 0
    assert value["isotherm_engine_running_sequences"] == 0
    assert value["isotherm_kv_blocks_active"] == 0
