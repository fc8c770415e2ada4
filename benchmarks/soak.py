"""5,000 short requests, 20 % of them aborted at random points: blocks leaked, and answers that differ from solo runs.

    python benchmarks/soak.py

A pool of prompts is answered one at a time first. Then requests drawn from the pool run 32 at once while others
are aborted: before the first token, in the middle, near the end. With ``--deterministic`` every whole answer must
be the solo answer; without it the rate of divergence is a finding to document, not a fault. When all is over the
server must hold no block for a sequence (``isotherm_kv_blocks_active`` of ``/metrics``).
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from isotherm.bench.answer import read
from isotherm.bench.http import Endpoint, Exchange
from isotherm.bench.load import ROUTE, encode
from isotherm.bench.workloads import Calibration, PromptLength, Workload
from lab import arguments
from lab.engines import MODEL, plain_isotherm
from lab.rows import Row, write
from lab.servers import Server, say

REQUESTS = 5000
ABORTED = 0.2
POOL = 100
AT_ONCE = 32
IDLE_LIMIT_S = 30.0
GAUGE = re.compile(r"^(isotherm_(?:kv_blocks_active|engine_running_sequences|engine_waiting_sequences))\S* (\S+)", re.M)


def pool(count: int) -> list[bytes]:
    """Bodies of short requests: half greedy, half seeded, of 4 to 24 new tokens, with prompts of many lengths."""
    bodies = []
    for index in range(count):
        draw = random.Random(f"soak {index}")
        temperature = 0.0 if index % 2 else 0.9
        workload = Workload(PromptLength(40, 200), draw.randint(4, 24), seed=77, temperature=temperature)
        bodies.append(encode(workload.request(index, Calibration()), MODEL))
    return bodies


@dataclass(slots=True)
class Outcome:
    """Counts of one soak. ``whole`` answers were compared; ``leaked`` are blocks still active when idle."""

    whole: int = 0
    differing: int = 0
    aborted: int = 0
    failed: int = 0
    leaked: int = -1
    failure: str = ""


async def soak(server: Server, requests: int, bodies: list[bytes]) -> Outcome:
    """Solo answers, the crowd, then the blocks."""
    endpoint = Endpoint(server.url)
    alone = [read(await endpoint.post(ROUTE, body)).text for body in bodies]
    say(f"{len(alone)} solo answers; now {requests} requests, {AT_ONCE} at once")
    outcome = Outcome()
    draw = random.Random("soak")
    turns = iter([(draw.randrange(len(bodies)), draw.random() < ABORTED, draw.random()) for _ in range(requests)])
    await asyncio.gather(*(_worker(endpoint, turns, bodies, alone, outcome) for _ in range(AT_ONCE)))
    outcome.leaked = await _blocks_when_idle(endpoint)
    return outcome


async def _worker(
    endpoint: Endpoint, turns: Iterator[tuple[int, bool, float]], bodies: list[bytes], alone: list[str], out: Outcome
) -> None:
    for index, abort, where in turns:
        if abort:
            await _abort(endpoint, bodies[index], where)
            out.aborted += 1
            continue
        answer = read(await endpoint.post(ROUTE, bodies[index]))
        if answer.failure is not None:
            out.failed += 1
            out.failure = answer.failure
            continue
        out.whole += 1
        out.differing += answer.text != alone[index]


class _Watched(list[tuple[float, bytes]]):
    """Events that say when there are ``wanted`` of them."""

    def __init__(self, wanted: int) -> None:
        super().__init__()
        self.reached = asyncio.Event()
        self._wanted = wanted

    def append(self, event: tuple[float, bytes]) -> None:
        super().append(event)
        if len(self) >= self._wanted:
            self.reached.set()


async def _abort(endpoint: Endpoint, body: bytes, where: float) -> None:
    """Hang up at a random point (``where`` in 0..1): up to 100 ms after sending, or after 1 to 18 events."""
    wanted = int(where * 20) - 1
    events = _Watched(max(1, wanted))
    task = asyncio.create_task(endpoint.post(ROUTE, body, Exchange(events=events)))
    reached = asyncio.create_task(events.reached.wait())
    await asyncio.wait({task, reached}, timeout=where if wanted < 1 else None, return_when=asyncio.FIRST_COMPLETED)
    for each in (task, reached):
        each.cancel()
    await asyncio.gather(task, reached, return_exceptions=True)


async def _blocks_when_idle(endpoint: Endpoint) -> int:
    """Active blocks once nothing runs or waits; the engine hears of the last aborts a moment late."""
    for _ in range(int(IDLE_LIMIT_S / 0.5)):
        await asyncio.sleep(0.5)
        text = (await endpoint.get("/metrics")).body.decode()
        gauges = {name: float(value) for name, value in GAUGE.findall(text)}
        if len(gauges) != 3:
            raise SystemExit("/metrics lacks the gauges of blocks and sequences")
        active = gauges.pop("isotherm_kv_blocks_active")
        if not any(gauges.values()) and not active:
            return 0
    return int(active)


def main() -> int:
    parser = arguments.parser(__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS, help="requests in each of the two soaks [5000]")
    args = parser.parse_args()
    requests = 200 if args.quick else args.requests
    bodies = pool(20 if args.quick else POOL)
    outcomes = {}
    for name, flags in (("deterministic", ["--deterministic"]), ("default", [])):
        with plain_isotherm([*flags, "--debug-integrity"]) as server:
            outcomes[name] = asyncio.run(soak(server, requests, bodies))
        say(f"{name}: {outcomes[name]}")
        if outcomes[name].failed:
            raise SystemExit(f"{outcomes[name].failed} requests failed: {outcomes[name].failure}")
    strict, default = outcomes["deterministic"], outcomes["default"]
    what = f"{requests:,} short requests, {strict.aborted / requests:.0%} aborted"
    differ = f"of {strict.whole:,} whole answers"
    rows = [
        Row(f"{what}: blocks leaked", [float(strict.leaked + default.leaked)], "blocks", at_most=0, order=17),
        Row(
            f"{what}: `--deterministic` answers that differ from solo runs, {differ}",
            [float(strict.differing)],
            "answers",
            at_most=0,
            order=17,
        ),
        Row(f"{what}: answers that differ without it", [100 * default.differing / default.whole], "%", order=19),
    ]
    return write("soak", rows, quick=args.quick, out=args.out)


if __name__ == "__main__":
    sys.exit(main())
