"""200 streams open at once, 8 of them running: none may fail, and the queue must be fair.

    python benchmarks/streams.py

Fair means: first tokens come in the order in which requests were sent. What is reported is the largest number
of places by which a stream was late; streams that run together may swap among themselves.
"""

from __future__ import annotations

import asyncio
import sys

from isotherm.bench.answer import Answer, read
from isotherm.bench.http import Endpoint
from isotherm.bench.load import ROUTE, encode
from isotherm.bench.workloads import Calibration, PromptLength, Workload
from lab import arguments
from lab.engines import MODEL, plain_isotherm
from lab.rows import Row, write
from lab.servers import say

STREAMS = 200
RUNNING = 8
TOKENS = 32
GAP_S = 0.005
"""Between two requests, so that there is an order in which they were sent."""


async def open_all(url: str, seed: int, tokens: int) -> list[Answer]:
    """Answers in the order sent, all streams open before the first can end the queue."""
    workload = Workload(PromptLength(64, 96), tokens, seed, temperature=0.8, ignore_eos=True)
    endpoint = Endpoint(url)

    async def one(index: int) -> tuple[float, Answer]:
        await asyncio.sleep(index * GAP_S)
        exchange = await endpoint.post(ROUTE, encode(workload.request(index, Calibration()), MODEL))
        return exchange.sent, read(exchange)

    pairs = await asyncio.gather(*(one(index) for index in range(STREAMS)))
    return [answer for _, answer in sorted(pairs, key=lambda pair: pair[0])]


def lateness(answers: list[Answer]) -> int:
    """Most places by which a first token came later than its request's place in the order of sending."""
    firsts = [(index * GAP_S + (answer.first_content or answer.elapsed), index) for index, answer in enumerate(answers)]
    ranked = [index for _, index in sorted(firsts)]
    return max(place - index for place, index in enumerate(ranked))


def main() -> int:
    args = arguments.parser(__doc__).parse_args()
    whole, late = [], []
    with plain_isotherm(["--max-num-seqs", RUNNING]) as server:
        for number in range(1 if args.quick else args.pairs):
            answers = asyncio.run(open_all(server.url, number, 4 if args.quick else TOKENS))
            failures = [answer.failure for answer in answers if answer.failure is not None]
            whole.append(float(len(answers) - len(failures)))
            late.append(float(lateness(answers)))
            say(f"{whole[-1]:.0f} of {STREAMS} streams whole, at most {late[-1]:.0f} places late {set(failures) or ''}")
    rows = [
        Row(f"streams open at once without error, {RUNNING} running", whole, "streams", at_least=STREAMS, order=15),
        Row("the same: most places by which a stream began late", late, "places", order=16),
    ]
    return write("streams", rows, quick=args.quick, out=args.out)


if __name__ == "__main__":
    sys.exit(main())
