"""What ``--deterministic`` costs: throughput at 8 streams with it over throughput without it.

    python benchmarks/deterministic.py

Two servers of the same build, pairs interleaved, the idle one stopped by SIGSTOP.
"""

from __future__ import annotations

import sys

from lab import arguments
from lab.engines import plain_isotherm
from lab.load import tokens_per_second
from lab.rows import Side, ratio_row, write
from lab.servers import say

STREAMS = 8
AT_LEAST = 0.9


def main() -> int:
    args = arguments.parser(__doc__).parse_args()
    values: list[list[float]] = [[], []]
    requests = STREAMS if args.quick else 3 * STREAMS
    pairs = 1 if args.quick else args.pairs
    with plain_isotherm(["--deterministic"]) as strict, plain_isotherm() as default:
        strict.pause()
        default.pause()
        for pair in range(pairs):
            for server, found in zip((strict, default), values, strict=True):
                server.resume()
                found.append(tokens_per_second(server, STREAMS, seed=pair, requests=requests))
                server.pause()
            say(f"pair {pair + 1} of {pairs}: {values[0][-1]:.1f} / {values[1][-1]:.1f} tokens/s")
        commands = strict.command.shown(), default.command.shown()
    names = "Isotherm --deterministic", "Isotherm"
    sides = [
        Side(name, found, "tokens/s", command=command)
        for name, found, command in zip(names, values, commands, strict=True)
    ]
    row = ratio_row("`--deterministic` over default, 8 streams", *sides, AT_LEAST, 18)
    return write("deterministic", [row], quick=args.quick, out=args.out)


if __name__ == "__main__":
    sys.exit(main())
