"""Peak memory of all processes of ``isotherm serve`` while 8 streams of 2,000 tokens run.

    python benchmarks/memory.py

PSS summed over the server and its children, sampled five times a second from start to end: shared pages count
once, page-cache pages of the mapped weights count. The sum of RSS (which counts shared pages twice) stands beside it.
"""

from __future__ import annotations

import sys

from lab import arguments
from lab.engines import plain_isotherm
from lab.load import level
from lab.processes import PeakMemory
from lab.rows import Row, write
from lab.servers import say

STREAMS = 8
TOKENS = 2000
LIMIT_GB = 1.5


def peak(tokens: int, seed: int) -> tuple[float, float]:
    """(PSS, RSS) in GB of one server's life under the load."""
    with plain_isotherm() as server, PeakMemory(server.pid) as memory:
        level(server, STREAMS, seed=seed, requests=STREAMS, max_tokens=tokens)
    return memory.pss / 1e9, memory.rss / 1e9


def main() -> int:
    args = arguments.parser(__doc__).parse_args()
    proportional, resident = [], []
    for number in range(1 if args.quick else args.pairs):
        pss, rss = peak(200 if args.quick else TOKENS, number)
        say(f"peak PSS {pss:.2f} GB, RSS {rss:.2f} GB")
        proportional.append(pss)
        resident.append(rss)
    what = f"peak memory of all processes, {STREAMS} streams of {TOKENS:,} tokens"
    rows = [
        Row(what, proportional, "GB", at_most=LIMIT_GB, order=12, remarks={"measure": "sum of PSS"}),
        Row(f"{what} (RSS, shared pages counted twice)", resident, "GB", order=13),
    ]
    return write("memory", rows, quick=args.quick, out=args.out)


if __name__ == "__main__":
    sys.exit(main())
