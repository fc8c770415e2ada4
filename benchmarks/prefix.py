"""Time to the first token of a second request that shares 1,500 tokens with a first one, against the first's.

    python benchmarks/prefix.py

Each pair has a text of its own, so every first request is cold; what differs stands at the end of the prompt.
"""

from __future__ import annotations

import asyncio
import random
import sys

from isotherm.bench.answer import Answer, read
from isotherm.bench.http import Endpoint
from isotherm.bench.load import ROUTE, encode
from isotherm.bench.session import calibrate
from isotherm.bench.workloads import passage
from lab import arguments
from lab.engines import MODEL, plain_isotherm
from lab.rows import Side, ratio_row, write
from lab.servers import Server, say

SHARED_TOKENS = 1500
ANSWER_TOKENS = 4
AT_LEAST = 5.0


async def pair(server: Server, number: int) -> tuple[Answer, Answer]:
    """A cold request and a warm one, one after the other."""
    endpoint = Endpoint(server.url)
    words = (await calibrate(endpoint, MODEL, 10_000 + number)).words(SHARED_TOKENS)
    shared = f"{number}. " + " ".join(passage(random.Random(f"prefix {number}"), words))
    first, second = [read(await endpoint.post(ROUTE, _body(shared + end))) for end in _QUESTIONS]
    for answer in (first, second):
        if answer.failure is not None:
            raise SystemExit(f"a request failed: {answer.failure}")
    return first, second


_QUESTIONS = ("\n\nWho is named first in this text?", "\n\nWhat happens at the end of this text?")


def _body(text: str) -> bytes:
    message = {"role": "user", "content": text}
    return encode({"messages": [message], "max_tokens": ANSWER_TOKENS, "temperature": 0.0, "ignore_eos": True}, MODEL)


def main() -> int:
    args = arguments.parser(__doc__).parse_args()
    cold, warm, prompts, cached = [], [], [], []
    with plain_isotherm() as server:
        asyncio.run(pair(server, 0))
        for number in range(1, (1 if args.quick else args.pairs) + 1):
            first, second = asyncio.run(pair(server, number))
            cold.append(1000 * (first.first_content or first.elapsed))
            warm.append(1000 * (second.first_content or second.elapsed))
            prompts.append(second.prompt_tokens)
            cached.append(second.cached_tokens)
            say(f"cold {cold[-1]:.0f} ms, warm {warm[-1]:.0f} ms, {cached[-1]} of {prompts[-1]} tokens cached")
    what = "prefix cache: TTFT cold over warm, 1,500 shared tokens"
    first_side, second_side = Side("cold", cold, "ms"), Side("warm", warm, "ms")
    row = ratio_row(what, first_side, second_side, AT_LEAST, 14, prompt_tokens=prompts, cached_tokens=cached)
    return write("prefix", [row], quick=args.quick, out=args.out)


if __name__ == "__main__":
    sys.exit(main())
