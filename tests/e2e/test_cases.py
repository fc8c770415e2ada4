"""The deploy cases of tests/cases that apply to a server on one machine, one test each."""

import configparser
import json
import re
import subprocess
import time

import httpx
import pytest

from rules.source import ROOT
from support.processes import alive, engine_of
from support.server_process import Stream, wait_until

pytestmark = pytest.mark.model


def case(number):
    (path,) = (ROOT / "tests" / "cases").glob(f"{number}-*.json")
    return json.loads(path.read_text(encoding="utf-8"))


def test_248_no_orphan_whoever_is_killed(serve):
    """The supervisor kills only the API process; the unit that we document kills the group anyway."""
    assert "engine exits when its parent dies" in case(248)["expect"]["must"]
    server = serve()
    server.url()
    engine = engine_of(server.process.pid)
    server.process.kill()
    wait_until(lambda: not alive(engine), seconds=2)

    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    unit = configparser.ConfigParser()
    unit.optionxform = str
    unit.read_string(re.search(r"```ini\n(.*?)```", page, re.DOTALL)[1])
    drain = int(unit["Service"]["Environment"].partition("ISOTHERM_DRAIN_TIMEOUT=")[2])
    assert unit["Service"]["KillMode"] in {"mixed", "control-group"}
    assert int(unit["Service"]["TimeoutStopSec"]) > drain + 5


def test_251_a_dead_engine_is_not_a_clean_exit(serve):
    """The engine fails for good: exit status, last error in the log, an error event for who was waiting."""
    assert case(251)["expect"]["must"].startswith("process exit status != 0")
    server = serve()
    stream = Stream(server.url(), "Write a long story.", model="smollm2-135m", max_tokens=3000, ignore_eos=True)
    subprocess.run(["kill", "-ABRT", str(engine_of(server.process.pid))], check=True)
    assert json.loads(stream.end(20)[-1])["error"]["code"] == "engine_failure"
    assert server.end(20) == 2
    assert "SIGABRT" in server.log


def test_252_a_busy_port_names_the_old_process(serve):
    """A second server with other flags: told at once, by PID; the first tells its settings and start."""
    assert "naming the old PID" in case(252)["expect"]["must"]
    first = serve()
    url = first.url()
    begin = time.monotonic()
    second = serve("--port", url.rpartition(":")[2], "--dtype", "float32")
    assert second.end(20) == 2
    assert time.monotonic() - begin < 5
    assert f"PID {first.process.pid} (" in second.log
    assert re.search(r"started \d+ s ago, \d+ MB in memory", second.log)
    status = httpx.get(f"{url}/health/ready", trust_env=False).json()
    assert status["settings"] in first.log
    assert abs(status["started"] - time.time()) < 300
