"""The command line of the benchmark: flags, output, exit codes."""

import json
import os
import signal
import subprocess
import sys

import pytest

from isotherm.cli.main import main
from support.openai_server import Canned, serving

FAST = ["--requests", "2", "--max-tokens", "8", "--prompt-tokens", "50"]


def test_a_table_on_stdout_and_talk_on_stderr(capsys):
    with serving(Canned()) as url:
        assert main(["bench", "serve", "--url", url, "--concurrency", "1,2", *FAST]) == 0
    out, err = capsys.readouterr()
    assert "tokens/s" in out
    assert len([line for line in out.splitlines() if line.strip().startswith(("1 ", "2 "))]) == 2
    assert "concurrency 2" in err


def test_json_is_one_object_with_the_flags_that_were_given(capsys):
    flags = ["--json", "--seed", "7", "--temperature", "0", "--ignore-eos", "--ttft-limit", "500"]
    with serving(Canned()) as url:
        assert main(["bench", "serve", "--url", url, "--concurrency", "2", *FAST, *flags]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["workload"] == {
        "prompt_tokens": "50",
        "max_tokens": 8,
        "seed": 7,
        "temperature": 0.0,
        "ignore_eos": True,
    }
    assert document["limits"] == {"ttft": 0.5, "tpot": None}
    assert document["levels"][0]["counted"] == 2


def test_findings_give_one(capsys):
    with serving(Canned(text="on and on and on, ")) as url:
        flags = ["--requests", "2", "--max-tokens", "40", "--concurrency", "1"]
        assert main(["bench", "serve", "--url", url, *flags]) == 1
    assert "Degenerate" in capsys.readouterr().out


@pytest.mark.parametrize(
    "flags",
    [
        ["--concurrency", "0"],
        ["--concurrency", "1,,2"],
        ["--max-tokens", "many"],
        ["--prompt-tokens", "200-100"],
        ["--temperature", "nan"],
        ["--tpot-limit", "0"],
        ["--url", "ftp://x"],
        ["--url", "http://127.0.0.1:1"],
    ],
)
def test_what_cannot_run_gives_two_and_says_why(flags, capsys):
    assert main(["bench", "serve", *flags]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("isotherm: ")


def test_ctrl_c_prints_what_there_is():
    with serving(Canned(pause=0.005)) as url:
        command = [sys.executable, "-m", "isotherm", "bench", "serve", "--url", url, "--concurrency", "1", "--json"]
        flags = ["--requests", "500", "--max-tokens", "4", "--warmup", "0"]
        process = subprocess.Popen(
            [*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        said = ""
        while "concurrency 1" not in said:
            said += process.stderr.readline()
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    document = json.loads(out)
    assert process.returncode == 1
    assert document["interrupted"]
    assert 0 < document["levels"][0]["counted"] < 500
