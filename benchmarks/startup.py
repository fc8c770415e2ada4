"""From the command to the first answered chat request, weights cached, through ``isotherm serve smollm2-135m``.

    python benchmarks/startup.py

The first start on a machine also compiles kernels and keeps them; that start is timed apart, with an empty
kernel cache, and is in no bar.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from lab import arguments
from lab.engines import MODEL, plain_isotherm
from lab.rows import Row, write
from lab.servers import Command, Server, say

LIMIT_S = 6.0


def start(environment: Mapping[str, str] | None = None) -> float:
    """Seconds from starting the command until a request of one token is answered."""
    server = plain_isotherm()
    server = Server(Command(server.command.words, environment or {}), MODEL)
    with server:
        return server.start_seconds


def first_start() -> float:
    """The same with the model cached and no compiled kernels."""
    cache = Path(os.environ.get("ISOTHERM_CACHE", Path.home() / ".cache" / "isotherm"))
    with tempfile.TemporaryDirectory() as empty:
        shutil.copytree(cache / "models", Path(empty) / "models", symlinks=True)
        return start({"ISOTHERM_CACHE": empty})


def main() -> int:
    args = arguments.parser(__doc__).parse_args()
    pairs = 1 if args.quick else args.pairs
    say("a start that is not counted, so that files are in the page cache")
    start()
    values = []
    for number in range(pairs):
        values.append(start())
        say(f"start {number + 1} of {pairs}: {values[-1]:.2f} s")
    rows = [Row("`isotherm serve smollm2-135m` to the first answer", values, "s", at_most=LIMIT_S, order=10)]
    if not args.quick:
        say("the first start on a machine, compiling kernels")
        rows.append(Row("the same, first start on a machine (kernels are compiled)", [first_start()], "s", order=11))
    return write("startup", rows, quick=args.quick, out=args.out)


if __name__ == "__main__":
    sys.exit(main())
