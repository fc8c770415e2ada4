"""The cache cases of tests/cases on the real server with a DeepSeek-V4: a warm answer is the cold one.

Linear layers compute in float32 here: pieces of other sizes sum in another order, and bfloat16 would make that visible.
The cache is what is served, bfloat16 and FP8. Prompts have an eighth of the reported lengths, in `make test-long` all.
"""

import re
import subprocess
import sys
from contextlib import contextmanager

import httpx
import openai
import pytest

from isotherm.model.deepseek_v4.tiny import write_tiny
from support.cases import case
from support.latent import some_tokens
from support.server_process import ServerProcess

SERVE = [sys.executable, "-m", "isotherm", "serve"]
KV_DTYPES = ("bfloat16", "fp8_e4m3")
LENGTHS = (pytest.param(8, id="eighth"), pytest.param(1, id="whole", marks=pytest.mark.long))
BLOCK = 256
LOGS = int(re.search(r"<(\d+) tokens of logs>", str(case("166")["input"]["dialogue"]))[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "tiny"
    write_tiny(folder)
    return folder


@contextmanager
def client_of(folder, kv_dtype):
    flags = [
        "--kv-dtype",
        kv_dtype,
        "--dtype",
        "float32",
        "--kv-memory",
        "64M",
        "--max-num-seqs",
        "4",
        "--threads",
        "1",
    ]
    command = [*SERVE, str(folder), "--port", "0", "--debug-integrity", *flags]
    with (
        ServerProcess(command, OMP_NUM_THREADS="1") as server,
        openai.OpenAI(base_url=f"{server.url()}/v1", api_key="none", timeout=300) as client,
    ):
        yield client
        server.process.terminate()
        assert server.end(60) == 0, server.log


@pytest.mark.parametrize("part", LENGTHS)
@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
def test_164_warm_answers_are_not_empty(folder, kv_dtype, part):
    """One cold run, five warm ones, four that may reuse nothing because every prompt token's score is wanted."""
    given = case("164")
    assert given["expect"]["verdict"] == "prefix cache corrupts warm requests"
    runs, without = given["input"]["observations"], given["input"]["prefix_cache_off_runs"]
    prompt = some_tokens(runs[0]["prompt_tokens"] // part, seed=164)
    ask = {
        "model": "tiny",
        "prompt": prompt,
        "max_tokens": runs[0]["completion_tokens"],
        "temperature": 0,
        "logprobs": 1,
    }
    reusable = (len(prompt) - 1) // BLOCK * BLOCK
    with client_of(folder, kv_dtype) as client:
        answers = [client.completions.create(**ask) for _ in runs]
        whole = [client.completions.create(**ask, echo=True) for _ in without]
    assert [answer.usage.prompt_tokens_details.cached_tokens for answer in answers] == [0, *[reusable] * 5]
    assert [answer.usage.prompt_tokens_details.cached_tokens for answer in whole] == [0] * 4
    assert {answer.usage.completion_tokens for answer in answers + whole} == {ask["max_tokens"]}
    cold = answers[0].choices[0].logprobs
    for answer in answers[1:]:
        scores = answer.choices[0].logprobs
        assert scores.tokens == cold.tokens
        assert scores.token_logprobs == pytest.approx(cold.token_logprobs, abs=1e-3)
    for answer in whole:
        assert answer.choices[0].logprobs.tokens[len(prompt) :] == cold.tokens


def dialogue(number, part):
    """The user's turns; each dialogue has a code of its own, so that none can live on another's cache."""
    first, *_, question = case("166")["input"]["dialogue"]
    lines = LOGS // part // 22
    text = "\n".join(f"{n:05} unit {number} valve {n * 7919 % 97:02} pressure ok" for n in range(lines))
    return [first["content"].replace("4417", str(4417 + number)), text, question["content"]]


def chat(client, messages):
    """The answer's text and the usage."""
    answer = client.chat.completions.create(
        model="tiny",
        messages=messages,
        max_tokens=16,
        temperature=0,
        extra_body={"chat_template_kwargs": {"thinking": False}},
    )
    return answer.choices[0].message.content or "", answer.usage


@pytest.mark.parametrize("part", LENGTHS)
@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
def test_166_nothing_is_forgotten_on_a_cache_hit(folder, kv_dtype, part):
    """Three dialogues: turn by turn on one server, their last prompts at once on a server that never saw them."""
    assert case("166")["expect"]["must"] == "experiment repeated >=3 times; both arms listed"
    warm, prompts = [], []
    with client_of(folder, kv_dtype) as client:
        for number in range(3):
            messages = []
            for turn in dialogue(number, part):
                messages.append({"role": "user", "content": turn})
                answer = chat(client, messages)
                prompts_of_turn = list(messages)
                messages.append({"role": "assistant", "content": answer[0]})
            warm.append(answer)
            prompts.append(prompts_of_turn)
    with client_of(folder, kv_dtype) as client:
        cold = [chat(client, prompt) for prompt in prompts]
    assert [text for text, _ in warm] == [text for text, _ in cold]
    assert all(text for text, _ in cold)
    assert [usage.prompt_tokens for _, usage in warm] == [usage.prompt_tokens for _, usage in cold]
    assert [usage.prompt_tokens_details.cached_tokens for _, usage in cold] == [0, 0, 0]
    for _, usage in warm:
        assert usage.prompt_tokens > LOGS // part
        assert usage.prompt_tokens_details.cached_tokens >= usage.prompt_tokens - 2 * BLOCK > 0


@pytest.mark.parametrize("asked", ["auto", "fp8_e4m3"])
def test_206_the_precision_is_shown_where_people_look(folder, asked):
    """At start and by /v1/models; auto does not quantise."""
    assert case("206")["input"]["config"]["policy"] == {"allow_kv_quantization": False}
    kept = "bfloat16" if asked == "auto" else asked
    command = [*SERVE, str(folder), "--port", "0", "--kv-dtype", asked, "--kv-memory", "16M", "--max-num-seqs", "2"]
    with ServerProcess(command, OMP_NUM_THREADS="1") as server:
        url = server.url()
        assert re.search(rf"^ +kv dtype +{kept}$", server.log, re.MULTILINE)
        (model,) = httpx.get(f"{url}/v1/models", trust_env=False).json()["data"]
        assert model["details"]["kv_dtype"] == kept


def test_204_the_server_ends_before_it_loads(folder):
    """A precision that does not exist is told with those that do; nothing is served instead."""
    run = subprocess.run(
        [*SERVE, str(folder), "--kv-dtype", "fp4"], capture_output=True, text=True, check=False, timeout=60
    )
    assert run.returncode == 2
    assert re.search(r"auto.*fp8_e4m3.*bfloat16.*float32", run.stderr)


def test_207_no_file_of_scales_is_taken(folder):
    """The older way to give scales is refused, not ignored."""
    command = [*SERVE, str(folder), "--quantization-param-path", "kv.json"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 2
    assert "--quantization-param-path" in run.stderr
