"""A real child process with a fake model: answers, every way to die, and nothing left behind."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engine.fakes import answer, limits, params, solo
from isotherm.backends.child import ChildProcess
from isotherm.backends.engine_client import EngineClient
from isotherm.backends.link import EngineLink
from isotherm.base.errors import SetupError
from isotherm.engine.messages import Submit
from isotherm.engine.options import EngineOptions

FAKE_CHILD = str(Path(__file__).with_name("fake_child.py"))


def gone(pid):
    """Whether no such process runs; one that nobody has waited for yet counts as gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_until(condition, seconds=5.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


class Client:
    """An EngineClient with what tests want to see of it."""

    def __init__(self, child, client, death):
        self.child, self.client, self.death = child, client, death

    async def start(self, **options):
        self.layers = []
        return await self.client.start(EngineOptions("fake", **options), lambda *count: self.layers.append(count))

    def submit(self, tokens, **fields):
        """Queue a sequence; returns its number and a future of all its pieces."""
        pieces, done = [], asyncio.get_running_loop().create_future()

        def receive(piece):
            pieces.append(piece)
            if piece.finish is not None:
                done.set_result(pieces)

        number = self.client.submit(lambda n: Submit(n, tokens, params(**fields)), receive)
        return number, done, pieces


@asynccontextmanager
async def running(mode="well"):
    death = asyncio.get_running_loop().create_future()
    child = ChildProcess((sys.executable, FAKE_CHILD, mode))
    client = EngineClient(child, await EngineLink.open(child.socket), death.set_result)
    try:
        yield Client(child, client, death)
    finally:
        await client.close()
        assert gone(child.pid)


async def test_many_sequences_over_one_socket():
    async with running() as engine:
        ready = await engine.start()
        assert ready.details == {"kernels": "hash"}
        assert engine.layers == [(1, 2), (2, 2)]
        submitted = {n: engine.submit([10 + n, 11, 12], max_tokens=20) for n in range(12)}
        for n, (_, done, _) in submitted.items():
            pieces = await asyncio.wait_for(done, 20)
            assert answer(pieces) == solo(limits(), [10 + n, 11, 12], max_tokens=20)
        assert engine.client.unfinished == 0
        assert engine.client.stats.finished_total == 12
        assert engine.client.stats.blocks_active == 0


async def test_an_aborted_sequence_is_heard_of_no_more():
    async with running("slow") as engine:
        await engine.start()
        number, _, pieces = engine.submit([5, 6], max_tokens=300)
        await asyncio.sleep(0.3)
        assert pieces
        engine.client.abort(number)
        engine.client.abort(number)
        seen = len(pieces)
        _, done, _ = engine.submit([7, 8], max_tokens=2)
        await asyncio.wait_for(done, 5)
        assert len(pieces) == seen
        assert engine.client.stats.aborted_total == 1


async def test_what_cannot_be_served_ends_with_the_reason():
    async with running() as engine:
        await engine.start()
        _, done, _ = engine.submit([1] * 400)
        (piece,) = await asyncio.wait_for(done, 5)
        assert piece.finish.reason == "error"
        assert "400 tokens" in piece.finish.error


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("setup-error", "^the model file is torn; fetch it again$"),
        ("bug", "ValueError: unexpected tensor"),
        ("crash", "crashed .SIGSEGV.*\n.*about to crash"),
    ],
)
async def test_a_failed_start_says_why(mode, message):
    async with running(mode) as engine:
        with pytest.raises(SetupError, match=message):
            await engine.start()
        assert gone(engine.child.pid)


async def test_killed_engine_is_reported_to_everybody():
    async with running("slow") as engine:
        await engine.start()
        engine.submit([5, 6], max_tokens=300)
        await asyncio.sleep(0.2)
        os.kill(engine.child.pid, signal.SIGKILL)
        death = await asyncio.wait_for(engine.death, 5)
        assert "killed (SIGKILL)" in str(death)
        assert "out of memory" in engine.client.failure
        assert engine.client.unfinished == 0


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("broken-step", {}, "ZeroDivisionError"),
        ("leak", {"debug_integrity": True}, "IntegrityError.*block 0 counts 1 holders"),
    ],
)
async def test_an_engine_that_fails_says_what_failed(mode, options, message):
    async with running(mode) as engine:
        await engine.start(**options)
        engine.submit([5, 6], max_tokens=1)
        death = await asyncio.wait_for(engine.death, 5)
        assert engine.child._process.returncode == 3
        assert re.search(message, str(death))


async def test_closing_while_it_loads_does_not_wait_for_it():
    async with running("slow-load") as engine:
        loading = asyncio.create_task(engine.start())
        await asyncio.sleep(0.1)
        started = time.monotonic()
        loading.cancel()
        await engine.client.close()
        assert time.monotonic() - started < 2
        assert gone(engine.child.pid)


async def test_closing_while_it_works_ends_it_in_order():
    async with running("slow") as engine:
        await engine.start()
        engine.submit([5, 6], max_tokens=300)
        await asyncio.sleep(0.1)
        await engine.client.close()
        assert engine.child._process.returncode == 0
        assert not engine.death.done()


async def test_an_engine_that_hangs_is_killed(monkeypatch):
    monkeypatch.setattr("isotherm.backends.engine_client.CLOSE_SECONDS", 0.3)
    async with running("hangs") as engine:
        await engine.start()
        engine.submit([5, 6])
        await asyncio.sleep(0.1)
        await engine.client.close()
        assert engine.child._process.returncode == -signal.SIGKILL


async def test_signals_of_the_group_are_left_to_the_server():
    """Ctrl-C and SIGTERM reach the child too; it must go on until the server has drained."""
    async with running("slow") as engine:
        await engine.start()
        _, done, _ = engine.submit([5, 6], max_tokens=6)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(engine.child.pid, number)
        pieces = await asyncio.wait_for(done, 10)
        assert len(answer(pieces)) == 6


PARENT = """
import sys, time
from isotherm.backends.child import ChildProcess
child = ChildProcess((sys.executable, {fake!r}, {mode!r}))
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("mode", ["well", "slow-load"])
def test_a_killed_parent_leaves_no_orphan(mode):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(fake=FAKE_CHILD, mode=mode)], stdout=subprocess.PIPE, text=True
    )
    child = int(parent.stdout.readline())
    wait_until(lambda: b"fake_child" in Path(f"/proc/{child}/cmdline").read_bytes())
    time.sleep(0.5)
    assert not gone(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: gone(child))
