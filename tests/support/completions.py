"""Completions of DeepSeek-V4 as a server reads them: thinking told from the answer, then the answer's calls."""

from __future__ import annotations

import json
from itertools import count, cycle
from pathlib import Path
from typing import Any

from isotherm.base.outcome import CallPiece, Channel
from isotherm.chat.calls import Event, Offer
from isotherm.chat.dsml import DsmlParser
from isotherm.chat.reasoning import Opening, ReasoningSplitter

VECTORS = json.loads((Path(__file__).resolve().parents[1] / "cases/vectors/v4_parsing.json").read_text("utf-8"))
TOOLS = VECTORS["offered_tools"]
EOS = "<｜end▁of▁sentence｜>"


def joined(events: list[Event]) -> tuple[str, list[tuple[str, str]]]:
    """The text, and name and arguments of each call that was done."""
    text = "".join(event for event in events if isinstance(event, str))
    pieces = [event for event in events if isinstance(event, CallPiece)]
    calls = []
    for index in (piece.index for piece in pieces if piece.done):
        mine = [piece for piece in pieces if piece.index == index]
        calls.append((mine[0].name, "".join(piece.arguments for piece in mine)))
    return text, calls


def offer(tools: list[dict[str, Any]], **how: bool) -> Offer:
    return Offer({tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in tools}, **how)


def parser(tools: list[dict[str, Any]] = TOOLS, **how: bool) -> DsmlParser:
    """Names calls in order: c0, c1..."""
    numbers = count()
    return DsmlParser(offer(tools, **how), lambda: f"c{next(numbers)}")


def pieces_of(text: str, sizes: list[int]) -> list[str]:
    """``text`` cut into pieces of these sizes, again and again."""
    pieces, place, size = [], 0, cycle(sizes)
    while place < len(text):
        pieces.append(text[place : place + next(size)])
        place += len(pieces[-1])
    return pieces


def parse(pieces: list[str], *, natural: bool = True, tools: list[dict[str, Any]] = TOOLS, **how: bool) -> Any:
    """Everything that a parser says about an answer, in a form that can be compared."""
    reader = parser(tools, **how)
    events = [event for piece in pieces for event in reader.feed(piece)] + reader.finish(natural=natural)
    merged: list[Any] = []
    for event in events:
        if isinstance(event, str) and merged and isinstance(merged[-1], str):
            merged[-1] += event
        elif isinstance(event, CallPiece) and event.arguments and merged and merged[-1][0] == "arguments":
            merged[-1] = ("arguments", event.index, merged[-1][2] + event.arguments)
        elif isinstance(event, CallPiece) and event.arguments:
            merged.append(("arguments", event.index, event.arguments))
        else:
            merged.append(event if isinstance(event, str) else (event.id, event.index, event.name or event.done))
    return merged, joined(events), reader.unfinished, reader.text_after, reader.complete


def whole(text: str, opening: Opening, *, finish: str, tools: list[dict[str, Any]], chunk: int = 0) -> dict[str, Any]:
    """Reasoning, content, calls and finish_reason of a raw completion, cut into pieces of ``chunk``."""
    splitter, reader, natural = ReasoningSplitter(opening), parser(tools), finish == "stop"
    events, thought, text = [], "", text.removesuffix(EOS)
    steps = [splitter.push(piece) for piece in pieces_of(text, [chunk or len(text) or 1])]
    for parts in [*steps, splitter.finish(natural=natural)]:
        for part in parts:
            if part.channel is Channel.REASONING:
                thought += part.text
            else:
                events += reader.feed(part.text)
    events += reader.finish(natural=natural)
    content, calls = joined(events)
    return {
        "reasoning": "" if splitter.unterminated else thought,
        "content": content,
        "tool_calls": [{"name": name, "arguments": json.loads(arguments)} for name, arguments in calls],
        "finish_reason": "tool_calls" if calls and natural else finish,
    }
