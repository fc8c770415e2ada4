"""Function calls as chat completions carry them: in pieces in a stream, complete ones in a whole answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from isotherm.base.outcome import CallPiece, Delta


def call_chunks(pieces: Iterable[CallPiece]) -> dict[str, Any]:
    """``{"tool_calls": [...]}`` of a delta; empty when the pieces have nothing to show."""
    shown = [_chunk(piece) for piece in pieces if piece.id or piece.arguments]
    return {"tool_calls": shown} if shown else {}


def _chunk(piece: CallPiece) -> dict[str, Any]:
    """The first piece of a call names it."""
    if not piece.id:
        return {"index": piece.index, "function": {"arguments": piece.arguments}}
    function = {"name": piece.name, "arguments": piece.arguments}
    return {"index": piece.index, "id": piece.id, "type": "function", "function": function}


def whole_calls(deltas: Sequence[Delta]) -> list[dict[str, Any]]:
    """The calls of an answer in order. One that was never done is left out: half a call must not be executed."""
    calls: dict[int, dict[str, Any]] = {}
    done = set()
    for piece in (piece for delta in deltas for piece in delta.calls):
        if piece.id:
            calls[piece.index] = {"id": piece.id, "type": "function", "function": {"name": piece.name, "arguments": ""}}
        calls[piece.index]["function"]["arguments"] += piece.arguments
        if piece.done:
            done.add(piece.index)
    return [call for index, call in calls.items() if index in done]
