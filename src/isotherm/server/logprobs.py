"""Log-probabilities in the two shapes of the protocol: a list of objects for chat, parallel lists for completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isotherm.base.outcome import TokenLogprob, TopLogprob

_LOWEST = -9999.0
"""JSON has no infinity; a token of probability 0 gets this instead."""


def _finite(logprob: float) -> float:
    return max(logprob, _LOWEST)


def chat_logprobs(entries: Sequence[TokenLogprob]) -> dict[str, Any]:
    """``{"content": [...]}``: one entry for each generated token, reasoning included, in order."""
    return {"content": [_chat_entry(entry) for entry in entries]}


def _chat_entry(entry: TokenLogprob) -> dict[str, Any]:
    return _chat_token(entry.data, entry.logprob) | {
        "top_logprobs": [_chat_token(rival.data, rival.logprob) for rival in entry.top]
    }


def _chat_token(data: bytes, logprob: float | None) -> dict[str, Any]:
    return {
        "token": data.decode("utf-8", "replace"),
        "logprob": _finite(logprob or 0.0),
        "bytes": list(data),
    }


def token_text(data: bytes) -> str:
    """A token as text; one that is not whole characters is written ``bytes:\\xf0\\x9f``, the legacy protocol's way."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


class TextOffsets:
    """Walks along one choice's text and gives each token the place where its text starts, in characters."""

    def __init__(self) -> None:
        self._end = 0

    def legacy(self, entries: Sequence[TokenLogprob], text: str) -> dict[str, Any]:
        """Parallel lists for the tokens behind ``text``, the next piece of the choice.

        A token without text of its own (a stop token, a start token) gets the place where it would be.
        """
        offsets = _places([entry.data for entry in entries], text, self._end)
        self._end += len(text)
        return {
            "tokens": [token_text(entry.data) for entry in entries],
            "token_logprobs": [None if entry.logprob is None else _finite(entry.logprob) for entry in entries],
            "top_logprobs": [_legacy_top(entry) for entry in entries],
            "text_offset": offsets,
        }


def _places(tokens: Sequence[bytes], text: str, char: int) -> list[int]:
    """Where each token starts in ``text``, whose first character is number ``char``."""
    raw = text.encode()
    at = 0
    places = []
    for token in tokens:
        starts_inside = bool(token) and _continues(token[0])
        places.append(char - starts_inside)
        if raw.startswith(token, at):
            at += len(token)
            char += sum(not _continues(byte) for byte in token)
    return places


def _continues(byte: int) -> bool:
    """True for a byte that continues a UTF-8 character."""
    return byte & 0xC0 == 0x80


def _legacy_top(entry: TokenLogprob) -> dict[str, float] | None:
    if entry.logprob is None:
        return None
    rivals = (*entry.top, TopLogprob(entry.token_id, entry.logprob, entry.data))
    return {token_text(rival.data): _finite(rival.logprob) for rival in rivals}
