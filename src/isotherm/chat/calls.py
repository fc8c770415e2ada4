"""Function calls in what a model writes: what was offered, what a parser gives, and which formats there are."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from isotherm.base.outcome import CallPiece
from isotherm.base.request import ChatPrompt

Event = str | CallPiece
"""Text of the answer, or a piece of a call."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a model may call: the parameter schemas of functions by name.

    ``single``: one call at most. ``opened``: the prompt has begun the calls already.
    """

    functions: Mapping[str, Mapping[str, Any]]
    single: bool = False
    opened: bool = False


class CallParser(ABC):
    """Fed with an answer's text behind its thinking, gives events.

    Text joined, and the pieces of each call joined, do not depend on how the answer was cut. ``complete`` counts
    calls that were done. ``unfinished`` and ``text_after`` are final after ``finish``: the markup of a call that
    the end cut off, and what stood behind the calls.
    """

    complete: int
    unfinished: str

    @property
    @abstractmethod
    def text_after(self) -> str: ...

    @abstractmethod
    def feed(self, text: str) -> list[Event]:
        """What is certain now."""

    @abstractmethod
    def finish(self, *, natural: bool) -> list[Event]:
        """The rest. ``natural`` is false when the answer was cut: by length, by a stop string, or aborted."""


MakeParser = Callable[[Offer], CallParser]


def new_id() -> str:
    """An id that no other call has."""
    return f"call_{secrets.token_hex(12)}"


def forced(prompt: ChatPrompt) -> bool:
    """Whether the answer has to be a call."""
    return prompt.tool_choice not in ("auto", "none")


def offer_of(prompt: ChatPrompt) -> Offer | None:
    """The functions that a prompt offers; None where there are none."""
    functions = [tool["function"] for tool in prompt.tools]
    if isinstance(prompt.tool_choice, Mapping):
        chosen = prompt.tool_choice["function"]["name"]
        functions = [function for function in functions if function["name"] == chosen]
    if not functions or prompt.tool_choice == "none":
        return None
    schemas = {function["name"]: function.get("parameters") or {} for function in functions}
    return Offer(schemas, single=not prompt.parallel_calls, opened=forced(prompt))
