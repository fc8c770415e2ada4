"""A DeepSeek-V4 checkpoint made here, served by the real server, asked by the real client."""

import json
import re
import shutil
import subprocess
import sys

import httpx
import openai
import pytest
import torch

from support.server_process import ServerProcess
from support.terminal import Terminal
from support.transformers_logits import transformers_logits

ISOTHERM = [sys.executable, "-m", "isotherm"]
PROMPT = [5 + index * 37 % 480 for index in range(300)]


def models(*words):
    command = [*ISOTHERM, "models", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "tiny"
    made = models("make-tiny", folder)
    assert made.stdout.strip() == str(folder)
    return folder


def serve(folder, kv_dtype, *words):
    command = [*ISOTHERM, "serve", str(folder), "--port", "0", "--kv-dtype", kv_dtype, "--kv-memory", "64M"]
    return ServerProcess([*command, "--max-num-seqs", "4", *words], OMP_NUM_THREADS="1")


@pytest.mark.parametrize("kv_dtype", ["bfloat16", "fp8_e4m3"])
def test_it_chats_streamed_and_whole(folder, kv_dtype):
    ask = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 12, "temperature": 0}
    with serve(folder, kv_dtype) as server, openai.OpenAI(base_url=f"{server.url()}/v1", api_key="none") as client:
        whole = client.chat.completions.create(**ask)
        chunks = list(client.chat.completions.create(**ask, stream=True))
        assert whole.usage.completion_tokens == 12
        message = whole.choices[0].message
        thought = "".join(
            getattr(chunk.choices[0].delta, "reasoning_content", None) or "" for chunk in chunks if chunk.choices
        )
        content = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert (thought, content) == (getattr(message, "reasoning_content", None) or "", message.content or "")
        assert f"kv dtype      {kv_dtype}" in server.log or kv_dtype in server.log
        assert "draft blocks" in server.log


def test_it_takes_tools_and_whole_tool_rounds(folder):
    tool = {"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}}}
    call = {"id": "k1", "type": "function", "function": {"name": "ping", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "k1", "content": "pong"},
    ]
    ask = {"model": "tiny", "messages": messages, "max_tokens": 12, "temperature": 0, "tools": [tool]}
    quiet = {"chat_template_kwargs": {"thinking": False}}
    with (
        serve(folder, "bfloat16") as server,
        openai.OpenAI(base_url=f"{server.url()}/v1", api_key="none") as client,
    ):
        for choice, body in (("auto", {}), ("none", {}), ("required", quiet)):
            answer = client.chat.completions.create(**ask, tool_choice=choice, extra_body=body)
            assert answer.choices[0].finish_reason == "length"
            assert answer.choices[0].message.tool_calls is None
        with pytest.raises(openai.BadRequestError, match="while it thinks"):
            client.chat.completions.create(**ask, tool_choice="required")
        counts = [
            httpx.post(f"{server.url()}/tokenize", json={"messages": messages} | more, trust_env=False).json()["count"]
            for more in ({}, {"tools": [tool]})
        ]
        assert answer.usage.prompt_tokens > counts[0]
        assert counts[1] > counts[0]


def test_a_person_sees_how_far_a_slow_start_is_and_may_end_it(tmp_path):
    layers = 160
    shape = {"num_hidden_layers": layers, "compress_ratios": [4, 128] * (layers // 2) + [0], "n_routed_experts": 16}
    (tmp_path / "shape.json").write_text(json.dumps(shape))
    models("make-tiny", tmp_path / "deep", "--config", tmp_path / "shape.json")
    command = ["serve", str(tmp_path / "deep"), "--port", "0", "--max-num-seqs", "1", "--kv-memory", "256M"]
    terminal = Terminal(*command, OMP_NUM_THREADS="1")
    before = terminal.expect(" of 160 layers", 60)
    assert re.search(r"deep \[#*\.+\] \d+ of 160 layers$", before)
    terminal.send("\x03")
    terminal.expect("stopping before the model is ready")
    assert terminal.wait() == 0


def test_effort_words_mean_what_the_checkpoint_was_trained_with(folder):
    """No encoder lies in the folder: April's table, until the operator says otherwise."""

    def lengths(server):
        ask = {"messages": [{"role": "user", "content": "Hello"}]}
        counts = {}
        for word in ("low", "high", "max"):
            kwargs = {"chat_template_kwargs": {"reasoning_effort": word}}
            counts[word] = httpx.post(f"{server.url()}/tokenize", json=ask | kwargs, trust_env=False).json()["count"]
        refused = httpx.post(
            f"{server.url()}/v1/chat/completions",
            json=ask | {"chat_template_kwargs": {"reasoning_effort": "huge"}},
            trust_env=False,
        )
        assert refused.status_code == 400
        assert "reasoning_effort 'huge' means nothing to DeepSeek-V4" in refused.json()["error"]["message"]
        return counts, httpx.get(f"{server.url()}/v1/policy", trust_env=False).json()["efforts"]["table"]

    with serve(folder, "bfloat16") as server:
        april, table = lengths(server)
        assert table == "april"
        assert "effort texts" in server.log
        assert "april (assumed: neither the folder nor its name tells" in server.log
    with serve(folder, "bfloat16", "--effort-texts", "0731") as server:
        july, table = lengths(server)
        assert table == "0731"
        assert "0731 (set by --effort-texts)" in server.log
    assert april["low"] == april["high"] == july["low"]
    assert april["max"] == july["high"] < july["max"]


def refusal(server, tokens):
    ask = {"prompt": tokens, "max_tokens": 8}
    answer = httpx.post(f"{server.url()}/v1/completions", json=ask, trust_env=False)
    assert answer.status_code == 400, answer.text
    return answer.json()["error"]["message"]


def test_what_a_prompt_cannot_be_is_a_400(folder):
    with serve(folder, "bfloat16", "--max-model-len", "300") as server:
        assert "the context window is 300 tokens" in refusal(server, [*PROMPT, 7])
        assert "token id 512 does not exist; the vocabulary has 512 tokens" in refusal(server, [5, 512])
        assert "-1" in refusal(server, [5, -1])
    with serve(folder, "bfloat16", "--kv-memory", "1.1M", "--kv-snapshots", "0") as server:
        assert "the KV cache holds" in refusal(server, PROMPT * 20)
        assert "--kv-memory" in refusal(server, PROMPT * 20)


def test_a_damaged_checkpoint_ends_the_start_with_one_line(folder, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(folder, damaged)
    path = damaged / "model.safetensors"
    data = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    begin = start + json.loads(data[8:start])["layers.3.attn_norm.weight"]["data_offsets"][0]
    data[begin : begin + 2] = b"\xc0\x7f"
    path.write_bytes(data)
    with serve(damaged, "bfloat16") as server:
        assert server.end(60) == 2
        lines = [line for line in server.log.splitlines() if " ... " not in line]
        assert len(lines) == 1
        assert lines[0].startswith("isotherm: layers.3.attn_norm.weight holds a NaN")


@pytest.mark.model
@pytest.mark.parametrize("flag", [("--effort-texts", "april"), ("--kv-snapshots", "5")])
def test_what_another_model_has_not_is_refused(flag):
    with ServerProcess([*ISOTHERM, "serve", "smollm2-135m", "--port", "0", *flag], OMP_NUM_THREADS="1") as server:
        assert server.end(120) == 2
        assert f"{flag[0]}" in server.log
        assert "DeepSeek-V4" in server.log
        assert "Traceback" not in server.log


def test_scores_of_a_prompt_are_those_of_transformers(folder):
    expected = transformers_logits(folder, torch.tensor(PROMPT)).log_softmax(-1)
    ask = {"prompt": PROMPT, "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
    with (
        serve(folder, "float32", "--dtype", "float32") as server,
        openai.OpenAI(base_url=f"{server.url()}/v1", api_key="none") as client,
    ):
        answer = client.completions.create(model="tiny", **ask)
    scores = answer.choices[0].logprobs.token_logprobs[1 : len(PROMPT)]
    for position, (token, score) in enumerate(zip(PROMPT[1:], scores, strict=True)):
        assert abs(expected[position, token] - score) < 1e-4


def test_inspect_says_what_a_token_costs_in_every_precision(folder):
    run = subprocess.run(
        [*ISOTHERM, "models", "inspect", str(folder), "--json"], capture_output=True, text=True, check=True
    )
    facts = json.loads(run.stdout)
    # Two layers by 4 with rows of 80 and keys of 32, two by 128 with rows of 80.
    assert facts["kv_bytes_per_token"] == {
        "fp8_e4m3": 2 * (64 + 32 + 8 + 36) / 4 + 2 * 104 / 128,
        "bfloat16": 2 * (160 + 64) / 4 + 2 * 160 / 128,
        "float32": 2 * (320 + 128) / 4 + 2 * 320 / 128,
    }
    people = models("inspect", folder, "--memory", "64M")
    fit = 64_000_000 - facts["weight_bytes"] - facts["sequence_bytes"]["bfloat16"]
    assert f"{int(fit / facts['kv_bytes_per_token']['bfloat16']):,} in bfloat16" in people.stdout
    assert "april (assumed" in people.stdout
    assert "2 by 4, 2 by 128; 1 with the window alone (16 tokens)" in people.stdout


def test_a_precision_that_cannot_be_is_refused(folder, tmp_path):
    narrow = tmp_path / "shape.json"
    narrow.write_text('{"head_dim": 64}')
    made = tmp_path / "narrow"
    subprocess.run(
        [*ISOTHERM, "models", "make-tiny", str(made), "--config", str(narrow)], check=True, capture_output=True
    )
    with serve(made, "fp8_e4m3") as server:
        assert server.end(60) == 2
        assert "--kv-dtype fp8_e4m3 is not possible" in server.log


def test_a_shape_that_cannot_be_leaves_no_folder(tmp_path):
    shape, target = tmp_path / "shape.json", tmp_path / "made"
    for text, flags, message in (
        ('{"vocab_size": 200}', [], "no room for bytes and markers"),
        ('{"hidden_size": 100}', ["--release"], "multiples of 32"),
        ("[1]", [], "must hold a JSON object"),
        ("{", [], "is no JSON"),
    ):
        shape.write_text(text)
        command = [*ISOTHERM, "models", "make-tiny", str(target), "--config", str(shape), *flags]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (run.returncode, target.exists()) == (2, False)
        assert message in run.stderr
