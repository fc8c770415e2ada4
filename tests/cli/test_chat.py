"""``isotherm chat`` against a real HTTP server: as a filter, for one question, and on a terminal."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from cli.scripted_server import ANSWER, ending, piece, scripted
from isotherm.cli.screen import Screen, harmless
from support.terminal import Terminal

COMMAND = [sys.executable, "-m", "isotherm", "chat"]
LONG = [piece(content=f"word{i} ") if i % 2 else 0.05 for i in range(400)] + ending(tokens=200)


def chat(*words, text="", **env):
    return subprocess.run(
        [*COMMAND, *words],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **env},
    )


def test_a_pipe_makes_it_a_filter():
    with scripted() as (script, url):
        result = chat("--url", url, text="Say hello\n")
    assert result.returncode == 0
    assert result.stdout == "Hello you\n"
    assert result.stderr == ""
    assert script.bodies[0]["messages"] == [{"role": "user", "content": "Say hello"}]
    assert script.bodies[0]["stream_options"] == {"include_usage": True}
    assert script.bodies[0]["model"] == "scripted"


def test_prompt_and_pipe_are_joined_and_values_are_sent():
    with scripted() as (script, url):
        result = chat("Translate:", "--url", url, "--set", "temperature=0", "--system", "brief", text="Hallo")
    assert result.returncode == 0
    assert script.bodies[0]["messages"] == [
        {"role": "system", "content": "brief"},
        {"role": "user", "content": "Translate:\n\nHallo"},
    ]
    assert script.bodies[0]["temperature"] == 0


def test_json_gives_text_figures_and_origins_in_one_object():
    with scripted() as (_, url):
        result = chat("hi", "--url", url, "--json")
    answer = json.loads(result.stdout)
    assert answer["content"] == "Hello you"
    assert answer["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] == 3
    assert answer["isotherm"]["sampling"]["temperature"] == {"value": 0.6, "origin": "operator"}
    assert answer["ttft_s"] > 0
    assert answer["tokens_per_second"] > 0


def test_the_key_comes_from_the_environment():
    with scripted() as (script, url):
        chat("hi", "--url", url + "/v1/", ISOTHERM_API_KEY="sk-test")
    assert script.keys == ["Bearer sk-test"]


@pytest.mark.parametrize(
    ("answer", "phrase"),
    [
        ((400, {"error": {"message": "temperature is 9"}}), "The server refused (400): temperature is 9"),
        ((500, "plain"), "The server refused (500)"),
        ([piece(content="par"), {"error": {"message": "engine died"}}], "engine died"),
        ([piece(content="par")], "ended the stream before the answer was finished"),
    ],
)
def test_a_server_that_fails_is_an_error_in_words(answer, phrase):
    with scripted(answer) as (_, url):
        result = chat("hi", "--url", url)
    assert result.returncode == 2
    assert phrase in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("words", "phrase"),
    [
        (["hi", "--url", "http://127.0.0.1:9"], "No server answers at http://127.0.0.1:9"),
        (["hi", "--url", "ftp://x"], "is not an HTTP address"),
        ([], "There is nothing to ask"),
        (["hi", "--set", "heat=1"], "'heat' cannot be set"),
    ],
)
def test_what_cannot_start_says_why(words, phrase):
    result = chat(*words)
    assert result.returncode == 2
    assert phrase in result.stderr


@pytest.mark.parametrize("models", ["hello", {"data": []}, [], None])
def test_a_url_that_is_no_such_server(models):
    with scripted() as (script, url):
        script.models = models
        result = chat("hi", "--url", url)
    assert result.returncode == 2
    assert "not as an OpenAI-compatible server" in result.stderr


def test_a_conversation_on_a_terminal(tmp_path):
    with scripted() as (script, url):
        terminal = Terminal("chat", "--url", url)
        terminal.expect("scripted at http://")
        terminal.say("/set temperature 0.6")
        terminal.expect("temperature = 0.6 (origin: request")
        terminal.say("hi there")
        terminal.expect("Hello you")
        figures = terminal.expect("clamped   max_tokens from 9000 to 100: the context is full then")
        assert "unknown field 'x' was ignored" in figures
        assert "3 tokens" in figures
        assert "tokens/s" in figures
        assert "first token after" in figures
        assert "operator  temperature 0.6" in figures
        assert "\x1b[2m" in figures
        terminal.say('"""two\nlines"""')
        terminal.expect("Hello you")
        terminal.say(f"/save {tmp_path / 'talk.json'}")
        terminal.expect("saved 4 messages")
        terminal.say("/temprature")
        terminal.expect("is not a command")
        terminal.say("/quit")
        assert terminal.wait() == 0
    assert script.bodies[0]["temperature"] == 0.6
    assert script.bodies[1]["messages"][:2] == [
        {"role": "user", "content": "hi there"},
        {"role": "assistant", "content": "Hello you"},
    ]
    assert script.bodies[1]["messages"][2]["content"] == "two\nlines"
    assert len(json.loads((tmp_path / "talk.json").read_text())["messages"]) == 4


def test_ctrl_c_stops_the_answer_and_not_the_program():
    with scripted(LONG, ANSWER) as (script, url):
        terminal = Terminal("chat", "--url", url, NO_COLOR="1")
        terminal.say("go")
        terminal.expect("word3")
        terminal.send("\x03")
        figures = terminal.expect("stopped by Ctrl-C")
        assert "\x1b[2m" not in figures
        assert script.hung_up.wait(10)
        terminal.say("go on")
        terminal.expect("Hello you")
        terminal.expect("> ")
        # Python hears a signal between showing the prompt and waiting for keys only at the next key.
        time.sleep(0.5)
        terminal.send("\x03")
        terminal.expect("Ctrl-D leaves")
        terminal.say("\x04", "")
        assert terminal.wait() == 0
    assert script.bodies[1]["messages"][1]["content"].startswith("word1 word3")


def test_ctrl_c_ends_a_filter():
    with scripted(LONG) as (_, url):
        process = subprocess.Popen(
            [*COMMAND, "go", "--url", url], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        process.stdout.read(10)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 2
    assert err.decode() == "isotherm: interrupted\n"


def test_reasoning_stands_apart_from_the_answer():
    with scripted([piece(reasoning_content="hm"), piece(content="four"), *ending()]) as (_, url):
        assert chat("2+2", "--url", url).stdout == "hm\n\nfour\n"
        answer = json.loads(chat("2+2", "--url", url, "--json").stdout)
    assert (answer["reasoning"], answer["content"]) == ("hm", "four")


def test_a_model_cannot_steer_the_terminal():
    assert harmless("a\x1b[2Jb\x07\x9bc\n\té") == "a[2Jbc\n\té"


def test_a_program_gets_the_text_as_it_is(capsys):
    Screen().answer("a\x1b[0m", dim=True)
    assert capsys.readouterr().out == "a\x1b[0m"
