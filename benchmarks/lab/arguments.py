"""The flags that every benchmark script has."""

from __future__ import annotations

import argparse
from pathlib import Path

LEAST_PAIRS = 5


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with ``--quick``, ``--pairs`` and ``--out``."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="a short try of everything: one pair, little load, no file")
    made.add_argument("--pairs", type=int, default=LEAST_PAIRS, help="repetitions; medians of fewer than 5 say little")
    made.add_argument("--out", type=Path, metavar="FILE", help="where to write [benchmarks/results/NAME.json]")
    return made
