"""However a server or its engine ends: clients are told, the exit code tells, and nobody is left behind."""

import json
import os
import signal
import subprocess
import sys
import time

import httpx
import pytest

from support.processes import alive, engine_of
from support.server_process import Stream, wait_until

pytestmark = pytest.mark.model
LONG = {"model": "smollm2-135m", "max_tokens": 3000, "ignore_eos": True}


def long_stream(url, **body):
    return Stream(url, "Write a very long story about a lighthouse.", **{**LONG, **body})


def test_ctrl_c_during_streams_lets_them_finish(serve):
    server = serve()
    url = server.url()
    engine = engine_of(server.process.pid)
    streams = [long_stream(url, max_tokens=60) for _ in range(3)]
    # As a terminal does it: the whole group gets the signal, the engine too.
    signal_group(server, signal.SIGINT)
    for stream in streams:
        assert stream.end(60)[-1] == "[DONE]"
    assert server.end(20) == 0
    assert not alive(engine)


def signal_group(server, number):
    subprocess.run(["kill", f"-{number.value}", "--", f"-{server.process.pid}"], check=True)


def test_what_outlasts_the_drain_is_told_so(serve):
    server = serve("--drain-timeout", "0.5")
    stream = long_stream(server.url())
    server.process.terminate()
    assert json.loads(stream.end(30)[-1])["error"]["code"] == "server_shutting_down"
    assert server.end(20) == 0


def test_a_second_ctrl_c_does_not_wait(serve):
    server = serve()
    stream = long_stream(server.url())
    signal_group(server, signal.SIGINT)
    server.wait_for("stopping: ")
    begin = time.monotonic()
    signal_group(server, signal.SIGINT)
    assert "error" in json.loads(stream.end(10)[-1])
    server.end(10)
    assert time.monotonic() - begin < 8


def test_a_killed_server_takes_its_engine_along(serve):
    server = serve()
    url = server.url()
    engine = engine_of(server.process.pid)
    long_stream(url)
    server.process.kill()
    wait_until(lambda: not alive(engine), seconds=2)


@pytest.mark.parametrize(("number", "word"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGSEGV, "SIGSEGV")])
def test_a_killed_engine_ends_the_server_with_a_cause(serve, number, word):
    server = serve()
    url = server.url()
    streams = [long_stream(url), long_stream(url)]
    subprocess.run(["kill", f"-{number.value}", str(engine_of(server.process.pid))], check=True)
    for stream in streams:
        assert json.loads(stream.end(20)[-1])["error"]["type"] == "server_error"
    assert server.end(20) == 2
    assert word in server.log.rpartition("isotherm: ")[2]


def test_a_client_that_leaves_frees_its_sequence(serve):
    server = serve("--max-num-seqs", "1")
    url = server.url()
    body = {**LONG, "messages": [{"role": "user", "content": "Tell a story."}], "stream": True}
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        with client.stream("POST", "/v1/chat/completions", json=body) as response:
            next(response.iter_lines())
        begin = time.monotonic()
        quick = client.post("/v1/chat/completions", json={**body, "stream": False, "max_tokens": 4})
    assert quick.json()["usage"]["completion_tokens"] == 4
    assert time.monotonic() - begin < 15


def test_sigterm_while_the_model_loads(serve):
    server = serve()
    wait_until(lambda: engine_pids(server), seconds=30)
    (engine,) = engine_pids(server)
    server.process.terminate()
    assert server.end(20) == 0
    wait_until(lambda: not alive(engine), seconds=2)
    assert "Traceback" not in server.log


def engine_pids(server):
    try:
        return [engine_of(server.process.pid)]
    except ValueError:
        return []


@pytest.mark.parametrize(
    ("words", "phrases"),
    [
        (["smolm2-135m"], ["smolm2-135m", "Did you mean smollm2-135m?"]),
        (["no/such/file.gguf"], ["no/such/file.gguf"]),
        (["smollm2-135m", "--max-model-len", "9000000"], ["9000000", "8192"]),
    ],
)
def test_what_cannot_be_loaded_says_why(smollm2, words, phrases):
    command = [sys.executable, "-m", "isotherm", "serve", *words, "--port", "0", "--offline"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 2
    assert result.stdout == ""
    assert all(phrase in result.stderr for phrase in phrases), result.stderr
    assert "Traceback" not in result.stderr


def test_a_model_that_is_not_here_and_may_not_be_fetched(tmp_path):
    command = [sys.executable, "-m", "isotherm", "serve", "smollm2-135m", "--port", "0", "--offline"]
    env = {**os.environ, "ISOTHERM_CACHE": str(tmp_path)}
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=env)
    assert result.returncode == 2
    assert "isotherm models fetch smollm2-135m" in result.stderr
