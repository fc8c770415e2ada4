"""Plots of a run: loss and speed, exact and right answers by skill.

python -m training.curves RUN docs/nano
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from training.progress import read

SHARED = {"step", "seconds", "kind"}


def plot(run: Path, folder: Path) -> list[Path]:
    """Write ``loss.png``, ``exact.png`` and ``right.png``; those without events are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    events = read(run)
    steps = [event for event in events if event["kind"] == "step"]
    written = []
    if steps:
        lines = {name: [(event["step"], event[name]) for event in steps] for name in ("loss", "index")}
        written.append(_figure(folder / "loss.png", lines, "loss of answers' tokens, and of the indexer"))
    for kind, title in (("exact", "held-out items written to the letter"), ("right", "held-out items solved")):
        found = [event for event in events if event["kind"] == kind]
        if found:
            names = [name for name in found[0] if name not in SHARED]
            lines = {name: [(event["step"], _share(event[name])) for event in found] for name in names}
            written.append(_figure(folder / f"{kind}.png", lines, title))
    return written


def _share(value: Any) -> float:
    return float(value["exact"] if isinstance(value, dict) else value)


def _figure(path: Path, lines: dict[str, list[tuple[float, float]]], title: str) -> Path:
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for name, points in lines.items():
        axes.plot(*zip(*points, strict=True), label=name, linewidth=1.2)
    axes.set_title(title)
    axes.set_xlabel("step")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", ncols=2)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


if __name__ == "__main__":
    for made in plot(Path(sys.argv[1]), Path(sys.argv[2])):
        print(made)
