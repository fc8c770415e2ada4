"""The README's table of results, made from ``benchmarks/results/*.json``.

python benchmarks/table.py            # rewrites README.md between its two markers
python benchmarks/table.py --check    # exit code 1 if the README does not hold what the files say
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BEGIN = "<!-- results: made by benchmarks/table.py -->"
END = "<!-- /results -->"


def load(folder: Path) -> list[Mapping[str, Any]]:
    """Every result document, by file name."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def table(documents: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: a row a measurement in their own order, then the machines they were taken on."""
    if not documents:
        return "No results yet: run the scripts in `benchmarks/`."
    rows = sorted((row for document in documents for row in document["rows"]), key=lambda row: row["order"])
    lines = ["| what | Isotherm | against | median [low, high] | bar | |", "|---|---|---|---|---|---|"]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows]
    return "\n".join([*lines, "", *_machines(documents)])


def _cells(row: Mapping[str, Any]) -> list[str]:
    ours, against = ([*map(_side, row["sides"]), "", ""])[:2]
    mark = {True: "met", False: "**missed**", None: ""}[row["met"]]
    return [row["what"], ours, against, _spread(row), _bar(row), mark]


def _side(side: Mapping[str, Any]) -> str:
    values = sorted(side["values"])
    middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
    setting = f"; {side['setting']}" if side["setting"] else ""
    return f"{_figure(middle)} {side['unit']} ({side['engine']}{setting})"


def _spread(row: Mapping[str, Any]) -> str:
    unit = "" if row["unit"] == "x" else f" {row['unit']}"
    times = "x" if row["unit"] == "x" else ""
    middle = f"{_figure(row['median'])}{times}{unit}"
    if len(row["values"]) == 1:
        return middle
    return f"{middle} [{_figure(row['low'])}, {_figure(row['high'])}], n={len(row['values'])}"


def _bar(row: Mapping[str, Any]) -> str:
    unit = row["unit"] if row["unit"] == "x" else f" {row['unit']}"
    if row["at_least"] is not None:
        return f"≥ {_figure(row['at_least'])}{unit}"
    return f"≤ {_figure(row['at_most'])}{unit}" if row["at_most"] is not None else ""


def _figure(value: float) -> str:
    """Three significant digits, whole numbers whole."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def _machines(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """One remark for each machine, commit and day, naming the commands that ran there."""
    groups: dict[str, list[str]] = {}
    for document in documents:
        machine = document["machine"]
        flags = ", ".join(machine["cpu_flags"])
        cpu = f"{machine['cpus']} cores of {machine['cpu']} ({flags}), {machine['memory_gb']:.0f} GB"
        versions = ", ".join(
            f"{name} {text}" for name, text in machine["versions"].items() if name in ("torch", "numba")
        )
        place = f"{cpu}; {versions}; commit {machine['commit']}, {machine['date'][:10]}"
        groups.setdefault(place, []).append(f"`{machine['command']}`")
    return [f"Measured on {place}: {', '.join(commands)}." for place, commands in groups.items()]


def renewed(readme: str, content: str) -> str:
    """The README with ``content`` between the markers; raises ValueError when they are not there once, in order."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1 or readme.index(BEGIN) > readme.index(END):
        raise ValueError(f"README.md must hold the line {BEGIN} and, after it, {END}, once each")
    before, rest = readme.split(BEGIN)
    return f"{before}{BEGIN}\n{content}\n{END}{rest.split(END)[1]}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if the table is old")
    parser.add_argument("--readme", type=Path, default=HERE.parent / "README.md")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    args = parser.parse_args(argv)
    old = args.readme.read_text()
    try:
        new = renewed(old, table(load(args.results)))
    except ValueError as problem:
        print(f"table.py: {problem}", file=sys.stderr)
        return 2
    if args.check:
        return 0 if new == old else 1
    args.readme.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
