"""A conversation with the answer that is expected of it, and what a model answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Mode(StrEnum):
    """How much is thought before the answer; all but OFF are words of ``reasoning_effort``."""

    OFF = "off"
    LOW = "low"
    HIGH = "high"
    MAX = "max"

    @property
    def variables(self) -> dict[str, Any]:
        """The request's ``chat_template_kwargs``."""
        return {"thinking": False} if self is Mode.OFF else {"thinking": True, "reasoning_effort": str(self)}


@dataclass(frozen=True, slots=True)
class Call:
    """A tool called by its name with ``arguments``, values of JSON."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said, taken apart."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to ask. ``facts`` is what the checker needs to know, values of JSON; ``expected`` is one right answer.

    ``messages`` and ``tools`` are those of a chat request.
    """

    skill: str
    messages: Sequence[Mapping[str, Any]]
    mode: Mode
    expected: Answer
    facts: Mapping[str, Any]
    tools: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def thoughts(mode: Mode, step: str, plan: str, check: str) -> str:
    """Reasoning that grows with the effort: the step alone, with a plan before it, with a check behind it."""
    parts = {Mode.OFF: (), Mode.LOW: (step,), Mode.HIGH: (plan, step), Mode.MAX: (plan, step, check)}[mode]
    return " ".join(parts)
