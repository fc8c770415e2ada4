"""An item as a chat request, and what came back as an answer that a checker can judge."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec

from isotherm.bench.http import Exchange
from isotherm.bench.skills.item import Answer, Call, Item

NOTHING = Answer()


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a request says about sampling; what is None is not sent, so the server decides."""

    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None

    def fields(self, index: int) -> dict[str, Any]:
        """Of the request with this number: each gets a seed of its own."""
        seed = None if self.seed is None else self.seed + index
        values = {"max_tokens": self.max_tokens, "temperature": self.temperature, "seed": seed}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it came; ``failure`` says why there is none. Token counts are the server's, None where not given."""

    answer: Answer = NOTHING
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    failure: str | None = None

    @property
    def starved(self) -> bool:
        """Cut off before a word of the answer was said."""
        return self.finish_reason == "length" and not self.answer.content.strip() and not self.answer.calls


def body(item: Item, model: str, sampling: Sampling, index: int) -> bytes:
    """The request's JSON. The mode goes where DeepSeek's chat templates look for it."""
    request = {
        "model": model,
        "messages": list(item.messages),
        **({"tools": list(item.tools)} if item.tools else {}),
        "chat_template_kwargs": item.mode.variables,
        **sampling.fields(index),
    }
    return msgspec.json.encode(request)


def read(exchange: Exchange) -> Reply:
    """Whatever is wrong with the exchange becomes ``failure``; a call whose arguments are no JSON object has none."""
    if exchange.error is not None:
        return Reply(failure=exchange.error)
    try:
        document = msgspec.json.decode(exchange.body)
        if exchange.status != 200:
            return Reply(failure=f"HTTP {exchange.status}: {_message(document)}")
        return _reply(document)
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError) as problem:
        return Reply(failure=f"HTTP {exchange.status}: not a chat completion ({problem})")


def _reply(document: dict[str, Any]) -> Reply:
    choice, usage = document["choices"][0], document.get("usage") or {}
    message = choice["message"]
    answer = Answer(
        message.get("content") or "",
        message.get("reasoning_content") or message.get("reasoning") or "",
        tuple(_call(call["function"]) for call in message.get("tool_calls") or ()),
    )
    details = usage.get("completion_tokens_details") or {}
    return Reply(
        answer,
        choice.get("finish_reason"),
        usage.get("prompt_tokens"),
        usage.get("completion_tokens"),
        details.get("reasoning_tokens"),
    )


def _call(function: dict[str, Any]) -> Call:
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        arguments = None
    return Call(function["name"], arguments if isinstance(arguments, dict) else {})


def _message(document: Any) -> str:
    error = document.get("error") if isinstance(document, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return str(message or document)[:500]
