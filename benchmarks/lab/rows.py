"""Rows of results: a median with its spread, set against a bar, written as JSON with all that it rests on."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from lab.machine import facts

RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True, slots=True)
class Side:
    """What one engine showed: every value, how it was started and at which setting."""

    engine: str
    values: list[float]
    unit: str
    setting: str = ""
    command: str = ""
    remarks: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return median(self.values)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. ``values`` are what is set against the bar: for two sides, the ratio of each pair.

    ``at_least`` or ``at_most`` is the bar; a row with neither is there for information.
    """

    what: str
    values: list[float]
    unit: str
    sides: list[Side] = field(default_factory=list)
    at_least: float | None = None
    at_most: float | None = None
    order: int = 0
    remarks: dict[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """Whether the median keeps the bar; None without one."""
        middle = median(self.values)
        if self.at_least is not None:
            return middle >= self.at_least
        return None if self.at_most is None else middle <= self.at_most

    def as_json(self) -> dict[str, Any]:
        spread = {"median": median(self.values), "low": min(self.values), "high": max(self.values), "met": self.met}
        return {**asdict(self), **spread}


def ratio_row(what: str, ours: Side, peer: Side, at_least: float | None, order: int, **remarks: Any) -> Row:
    """Ours over theirs, pair by pair in the order measured."""
    values = [mine / theirs for mine, theirs in zip(ours.values, peer.values, strict=True)]
    return Row(what, values, "x", [ours, peer], at_least=at_least, order=order, remarks=remarks)


def save(
    name: str, rows: Sequence[Row], *, quick: bool, out: Path | None, extra: dict[str, Any] | None = None
) -> Path | None:
    """Save rows as ``results/NAME.json`` (a quick try only where ``--out`` says); gives the file."""
    target = out or (None if quick else RESULTS / f"{name}.json")
    if target is not None:
        document = {"machine": facts(), **(extra or {}), "rows": [row.as_json() for row in rows]}
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return target


def write(name: str, rows: Sequence[Row], *, quick: bool, out: Path | None, extra: dict[str, Any] | None = None) -> int:
    """``save`` rows and print them; gives the exit code.

    0 when every bar is met, 1 otherwise.
    """
    target = save(name, rows, quick=quick, out=out, extra=extra)
    for row in rows:
        print(
            f"{row.what}: {median(row.values):.4g} {row.unit} [{min(row.values):.4g}, {max(row.values):.4g}]{_bar(row)}"
        )
        for side in row.sides:
            print(f"    {side.engine}: {side.median:.4g} {side.unit} ({side.setting or 'as it comes'})")
    print(f"written: {target}" if target else "a quick try: nothing written", file=sys.stderr)
    return 1 if any(row.met is False for row in rows) else 0


def _bar(row: Row) -> str:
    if row.met is None:
        return ""
    sign, bar = ("at least", row.at_least) if row.at_least is not None else ("at most", row.at_most)
    return f"  {sign} {bar:g}: {'met' if row.met else 'MISSED'}"
