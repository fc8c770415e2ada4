"""What ``--deterministic`` costs: throughput at 8 streams with it over throughput without it.

    python benchmarks/deterministic.py

Two servers of the same build, pairs interleaved, the idle one stopped by SIGSTOP.
"""

from __future__ import annotations

import sys

from lab import arguments
from lab.engines import plain_isotherm
from lab.load import Figure, decode_rate, remarks
from lab.rows import Side, ratio_row, write
from lab.servers import say

STREAMS = 8
AT_LEAST = 0.9


def main() -> int:
    args = arguments.parser(__doc__).parse_args()
    figures: list[list[Figure]] = [[], []]
    requests = STREAMS if args.quick else 3 * STREAMS
    pairs = 1 if args.quick else args.pairs
    with plain_isotherm(["--deterministic"]) as strict, plain_isotherm() as default:
        strict.pause()
        default.pause()
        for pair in range(pairs):
            for server, found in zip((strict, default), figures, strict=True):
                server.resume()
                found.append(decode_rate(server, STREAMS, seed=pair, requests=requests))
                server.pause()
            latest = " / ".join(f"{found[-1].value:.1f}" for found in figures)
            say(f"pair {pair + 1} of {pairs}: {latest} tokens/s")
        commands = strict.command.shown(), default.command.shown()
    names = "Isotherm --deterministic", "Isotherm"
    sides = [
        Side(name, [figure.value for figure in found], "tokens/s", command=command, remarks=remarks(found))
        for name, found, command in zip(names, figures, commands, strict=True)
    ]
    row = ratio_row("`--deterministic` over default, 8 streams", sides[0], sides[1], AT_LEAST, 18)
    return write("deterministic", [row], quick=args.quick, out=args.out)


if __name__ == "__main__":
    sys.exit(main())
