"""Where a run stands: one JSON line an event in the run's folder, and a line for whoever watches."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


class Progress:
    """Writes ``log.jsonl`` in ``folder``; ``seconds`` is how long earlier parts of the run took."""

    def __init__(self, folder: Path, seconds: float = 0.0) -> None:
        self._file = folder / "log.jsonl"
        self._start = time.monotonic() - seconds

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    def log(self, kind: str, step: int, **values: Any) -> None:
        """Append an event; ``values`` are JSON's."""
        event = {"kind": kind, "step": step, "seconds": round(self.seconds, 1), **values}
        with self._file.open("a") as file:
            file.write(json.dumps(event) + "\n")

    def say(self, step: int, steps: int, text: str, speed: float) -> None:
        """``speed`` is steps a second."""
        left = (steps - step) / speed / 60 if speed else 0.0
        print(f"step {step}/{steps}  {text}  {left:.0f} min left", file=sys.stderr, flush=True)


def read(folder: Path) -> list[dict[str, Any]]:
    """All events; where a run was resumed, those of steps that were done again count once, as the last time."""
    lines = (folder / "log.jsonl").read_text().splitlines()
    events = {(event["kind"], event["step"]): event for event in map(json.loads, lines)}
    return sorted(events.values(), key=lambda event: int(event["step"]))
