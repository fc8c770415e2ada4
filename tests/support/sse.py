"""Reads server-sent events out of a text."""

from __future__ import annotations

import json
from typing import Any


def events(text: str) -> list[Any]:
    """Data events in order, decoded; ``"[DONE]"`` as it is; comments left out."""
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def text_of(found: list[Any], index: int = 0, key: str = "content") -> str:
    """The text of one choice of a chat stream."""
    choices = [choice for event in found if event != "[DONE]" for choice in event.get("choices", ())]
    return "".join(choice["delta"].get(key) or "" for choice in choices if choice["index"] == index)
