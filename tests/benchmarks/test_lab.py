"""What the benchmark scripts share: the machine, process trees, servers, rows."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.engines import SLEEP, Peers, Setting, isotherm, settings
from lab.machine import facts, neutral
from lab.processes import PeakMemory, memory_bytes, tree
from lab.rows import Row, Side, ratio_row, write
from lab.servers import Command, Server

NESTED = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"


@pytest.fixture
def family():
    """A process with a child that waits for a line."""
    process = subprocess.Popen([sys.executable, "-c", NESTED], stdin=subprocess.PIPE)
    wait_until(lambda: len(tree(process.pid)) == 2)
    yield process
    process.communicate(b"\n")


def test_a_tree_holds_the_children_and_weighs_more_than_its_root(family):
    found = tree(family.pid)
    assert found[0] == family.pid
    assert len(found) == 2
    pss, rss = memory_bytes(family.pid)
    assert 1e6 < pss <= rss
    assert memory_bytes(found[1])[1] < rss


def test_peak_memory_sees_what_is_gone_again():
    script = "big = b'x' * 60_000_000; input(); del big; input()"
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, text=True, bufsize=1)
    with PeakMemory(process.pid, interval=0.02) as memory:
        wait_until(lambda: memory.pss > 60e6)
        process.stdin.write("\n")
        wait_until(lambda: memory_bytes(process.pid)[0] < 60e6)
    assert memory.rss >= memory.pss > 60e6
    process.communicate("\n")


def test_facts_name_the_machine_and_hold_no_path_of_it():
    found = facts()
    assert found["cpu"]
    assert found["cpus"] >= 1
    assert found["versions"]["isotherm"]
    assert os.path.expanduser("~") not in json.dumps({**found, "command": ""})


def test_commands_lose_what_only_this_machine_knows():
    shown = neutral(["/opt/x/bin/python", "LD_PRELOAD=/a/b.so:/c/d.so", "--port", "1", "http://127.0.0.1:1/v1", "a/b"])
    assert shown == ["python", "LD_PRELOAD=b.so:d.so", "--port", "1", "http://127.0.0.1:1/v1", "a/b"]


def test_every_engine_is_tried_at_every_setting(tmp_path):
    assert {setting.spin for setting in settings()} == {True, False}
    peers = Peers(tmp_path, tmp_path / "model.gguf")
    sleeping = Setting(2, spin=False)
    for engine in (peers.vllm, peers.llama_cpp, peers.transformers):
        command = engine.server(sleeping).command
        assert SLEEP.items() <= command.environment.items()
        assert command.words(1234)[-2:] == ["--port", "1234"]
    ours = isotherm(flags=["--deterministic"]).server(sleeping).command
    assert "--threads 2 --deterministic" in ours.shown()
    assert "GOMP_SPINCOUNT=0" in ours.shown()


def test_ratios_are_taken_pair_by_pair():
    row = ratio_row("x", Side("a", [10.0, 30.0], "u"), Side("b", [5.0, 10.0], "u"), 2.4, 1)
    assert row.values == [2.0, 3.0]
    assert row.met is True
    assert Row("y", [7.0], "s", at_most=6.0).met is False
    assert Row("z", [7.0], "s").met is None


def test_rows_are_written_with_the_machine_and_the_exit_code_tells(tmp_path, capsys):
    out = tmp_path / "deep" / "x.json"
    rows = [Row("start", [5.0, 7.0, 6.5], "s", at_most=6.0), Row("remark", [1.0], "s")]
    assert write("x", rows, quick=True, out=out) == 1
    document = json.loads(out.read_text())
    assert document["rows"][0]["median"] == 6.5
    assert document["rows"][0]["met"] is False
    assert document["machine"]["cpu"]
    assert "MISSED" in capsys.readouterr().out


def test_a_quick_try_writes_nothing(capsys):
    assert write("never", [Row("fine", [1.0], "s", at_most=2.0)], quick=True, out=None) == 0
    assert "nothing written" in capsys.readouterr().err


SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_until(holds):
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_server_is_ready_when_it_answers_and_gone_after():
    with Server(Command(lambda port: [sys.executable, "-c", SERVER, str(port)])) as server:
        pid = server.pid
        assert server.start_seconds > 0
        server.pause()
        wait_until(lambda: state(pid) == "T")
        server.resume()
        wait_until(lambda: state(pid) != "T")
    assert not os.path.exists(f"/proc/{pid}")


LEAVING = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
{SERVER}
"""


def test_a_server_leaves_no_child_behind():
    with Server(Command(lambda port: [sys.executable, "-c", LEAVING, str(port)])) as server:
        root, child = tree(server.pid)
    assert not os.path.exists(f"/proc/{root}")
    wait_until(lambda: not os.path.exists(f"/proc/{child}") or state(child) == "Z")


def test_a_server_that_dies_says_its_last_words():
    script = "print('the model is missing'); raise SystemExit(2)"
    with (
        pytest.raises(SystemExit, match="the model is missing"),
        Server(Command(lambda port: [sys.executable, "-c", script])),
    ):
        raise AssertionError("it never started")
