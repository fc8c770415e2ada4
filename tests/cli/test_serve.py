"""Starting, draining and ending a server; a script stands for the engine, everything else is real."""

import json
import signal
import sys
import time
from pathlib import Path

import httpx
import pytest

from support.server_process import ServerProcess, Stream

PROGRAM = [sys.executable, str(Path(__file__).with_name("serve_scripted.py")), "--port", "0"]


@pytest.fixture
def started():
    """Starts servers with the flags given and ends those that still run."""
    running = []

    def start(*flags, **env):
        running.append(ServerProcess([*PROGRAM, *flags], **env))
        return running[-1]

    yield start
    for server in running:
        server.__exit__()


def get(url, path):
    return httpx.get(url + path, trust_env=False, timeout=10)


def test_it_says_what_it_serves_and_how(started):
    server = started("--default-sampling", '{"temperature": 0.6}')
    url = server.url()
    assert get(url, "/health/ready").status_code == 200
    log = server.log
    assert "dtype" in log
    assert "100 of 32 tokens" in log
    assert "operator defaults  temperature 0.6" in log
    assert "protocol defaults  top_p 1.0" in log
    assert "open, no API keys" in log


def test_sigterm_without_work_stops_at_once_with_0(started):
    server = started()
    server.url()
    begin = time.monotonic()
    server.process.terminate()
    assert server.end() == 0
    assert time.monotonic() - begin < 3
    assert "closed" in server.log


def test_ctrl_c_lets_running_answers_finish_and_refuses_new_ones(started):
    server = started()
    url = server.url()
    with httpx.Client(base_url=url, trust_env=False) as client:
        assert client.get("/health/ready").status_code == 200
        stream = Stream(url)
        server.process.send_signal(signal.SIGINT)
        server.wait_for("stopping: 1 requests")
        assert client.get("/health/ready").status_code == 503
        refused = client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "x"}]})
        assert refused.status_code == 503
        assert "retry-after" in refused.headers
    lines = stream.end()
    assert lines[-1] == "[DONE]"
    assert any('"w99 "' in line for line in lines)
    assert server.end() == 0


def test_what_outlasts_the_drain_gets_an_error_event(started):
    server = started("--drain-timeout", "0.3")
    stream = Stream(server.url())
    server.process.terminate()
    assert "server_shutting_down" in stream.end()[-1]
    assert server.end() == 0


def test_a_second_ctrl_c_cuts_and_still_says_so(started):
    server = started()
    stream = Stream(server.url())
    server.process.send_signal(signal.SIGINT)
    server.wait_for("stopping: ")
    server.process.send_signal(signal.SIGINT)
    assert "server_shutting_down" in stream.end(5)[-1]
    assert server.end(5) == 0


def test_engine_death_reaches_clients_and_the_exit_code(started):
    server = started()
    url = server.url()
    bystander = Stream(url)
    victim = Stream(url, "die")
    assert "killed by the test" in victim.end()[-1]
    assert "error" in bystander.end()[-1]
    assert server.end() == 2
    assert "isotherm: the engine process was killed by the test" in server.log
    assert "closed" in server.log


def test_a_stop_while_the_model_loads(started):
    server = started("stuck")
    server.wait_for("loading stuck 3 of 4 layers ... ")
    server.process.terminate()
    assert server.end() == 0
    assert "closed" in server.log
    assert "Traceback" not in server.log


def test_a_model_that_cannot_load(started):
    server = started("broken")
    assert server.end() == 2
    assert "isotherm: the model is broken; take another" in server.log
    assert "closed" in server.log


def test_a_busy_port_is_told_in_a_second_by_pid(started):
    first = started()
    port = first.url().rpartition(":")[2]
    begin = time.monotonic()
    second = started("--port", port)
    assert second.end() == 2
    assert time.monotonic() - begin < 3
    assert f"Port {port} is taken by PID {first.process.pid}" in second.log
    assert "serve_scripted.py" in second.log
    assert "closed" not in second.log


@pytest.mark.parametrize(
    ("flags", "phrase"),
    [
        (["--default-sampling", '{"temperatur": 1}'], "--default-sampling"),
        (["--default-sampling", '{"temperature": 9}'], "--default-sampling"),
        (["--api-key-file", "absent"], "cannot read the key file"),
        (["--host", "192.0.2.1"], "is not an address of this machine"),
        (["--max-num-seqs", "0"], "--max-num-seqs needs a whole number from 1"),
        (["--log-format", "xml"], "--log-format needs one of text, json"),
    ],
)
def test_what_cannot_start_says_why(started, flags, phrase):
    server = started(*flags)
    assert server.end() == 2
    assert phrase in server.log
    assert "Traceback" not in server.log


def test_json_logs_carry_request_ids(started):
    server = started("--log-format", "json")
    ready = json.loads(next(line for line in server.wait_for('"ready"').splitlines() if '"ready"' in line))
    assert ready["defaults"]["protocol"]["temperature"] == 1.0
    response = httpx.get(ready["url"] + "/v1/models", headers={"x-request-id": "mine"}, trust_env=False)
    assert response.headers["x-request-id"] == "mine"
    server.wait_for('"mine"')
    server.process.terminate()
    assert server.end() == 0
    entries = [json.loads(line) for line in server.log.splitlines() if line != "closed"]
    assert any(entry.get("request_id") == "mine" and entry["status"] == 200 for entry in entries)


@pytest.mark.parametrize("model", ["broken", "m"])
def test_json_logs_hold_no_plain_line_whatever_the_end(started, model):
    server = started(model, "--log-format", "json")
    if model == "m":
        ready = json.loads(next(line for line in server.wait_for('"ready"').splitlines() if '"ready"' in line))
        Stream(ready["url"], "die").end()
    assert server.end() == 2
    entries = [json.loads(line) for line in server.log.splitlines() if line != "closed"]
    assert entries[-1]["level"] == "critical"
    assert "broken" in entries[-1]["message"] or "killed" in entries[-1]["message"]


def test_an_open_door_is_warned_about(started):
    server = started("--host", "0.0.0.0")
    server.url()
    assert "anybody who reaches" in server.log
    guarded = started("--host", "0.0.0.0", ISOTHERM_API_KEYS="sk-a")
    url = guarded.url()
    assert "anybody who reaches" not in guarded.log
    assert "1 API keys" in guarded.log
    assert get(url, "/v1/models").status_code == 401
