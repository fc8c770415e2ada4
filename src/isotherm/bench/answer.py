"""What one exchange means: text by channel with arrival times, token counts from usage, why it failed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from isotherm.bench.http import Exchange

_OK = 200


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _PromptDetails | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


_EVENT = msgspec.json.Decoder(_Event)


@dataclass(slots=True)
class Answer:
    """A decoded exchange. Times are seconds since the request was sent.

    ``pieces`` are (arrival, text) of events that carried text, reasoning and content together.
    ``completion_tokens`` is None when the server sent no usage. ``failure`` is None for a whole answer.
    """

    elapsed: float
    pieces: list[tuple[float, str]] = field(default_factory=list)
    first_reasoning: float | None = None
    first_content: float | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    failure: str | None = None

    @property
    def text(self) -> str:
        return "".join(piece for _, piece in self.pieces)


def read(exchange: Exchange) -> Answer:
    """Decode an exchange; whatever is wrong with it becomes ``failure``."""
    answer = Answer(elapsed=exchange.ended - exchange.sent)
    if exchange.error is None and exchange.status != _OK:
        answer.failure = f"HTTP {exchange.status}: {_message(exchange.body)}"
        return answer
    try:
        for at, payload in exchange.events:
            _take(_EVENT.decode(payload), at - exchange.sent, answer)
    except msgspec.MsgspecError as problem:
        answer.failure = f"an event is not what OpenAI streams carry: {problem}"
        return answer
    answer.failure = exchange.error or answer.failure or _missing(exchange, answer)
    return answer


def _take(event: _Event, at: float, answer: Answer) -> None:
    if event.error is not None:
        answer.failure = f"error event: {_text_of(event.error)}"
    if event.usage is not None:
        answer.prompt_tokens = event.usage.prompt_tokens
        answer.completion_tokens = event.usage.completion_tokens
        if event.usage.prompt_tokens_details is not None:
            answer.cached_tokens = event.usage.prompt_tokens_details.cached_tokens
    for choice in event.choices:
        answer.finish_reason = choice.finish_reason or answer.finish_reason
        if choice.delta is not None:
            _take_delta(choice.delta, at, answer)


def _take_delta(delta: _Delta, at: float, answer: Answer) -> None:
    thought = delta.reasoning_content or delta.reasoning
    if thought:
        answer.pieces.append((at, thought))
        if answer.first_reasoning is None:
            answer.first_reasoning = at
    if delta.content:
        answer.pieces.append((at, delta.content))
        if answer.first_content is None:
            answer.first_content = at


def _missing(exchange: Exchange, answer: Answer) -> str | None:
    if not exchange.events:
        return "the answer did not stream: no server-sent event came"
    if answer.finish_reason is None or not exchange.done:
        return "the stream was cut before its end"
    if answer.completion_tokens is None:
        return "the server sent no usage, so tokens cannot be counted"
    return None


def _message(body: bytes) -> str:
    """The envelope's message if there is one, else the first bytes."""
    try:
        document = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return body[:200].decode(errors="replace").strip() or "(empty)"
    return _text_of(document.get("error", document) if isinstance(document, dict) else document)


def _text_of(error: object) -> str:
    message = error.get("message") if isinstance(error, dict) else None
    return str(message if message else error)[:500]
