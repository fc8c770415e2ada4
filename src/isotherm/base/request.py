"""What a backend is asked to do: a prompt in one of three forms, and how to continue it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from isotherm.base.sampling import SamplingParams


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """Messages to be rendered by the model's chat template.

    ``messages`` are plain dicts with ``role`` and ``content`` (text), in order. ``template_kwargs``
    are the client's ``chat_template_kwargs``. ``tool_choice`` is ``auto``, ``none``, ``required`` or the
    protocol's object that names a function; ``parallel_calls`` allows more than one call.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    add_generation_prompt: bool = True
    tool_choice: str | Mapping[str, Any] = "auto"
    parallel_calls: bool = True


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """Raw text; special tokens written in it are recognised, as in every completions API."""

    text: str


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """Token ids, used as they are."""

    ids: Sequence[int]


Prompt = ChatPrompt | TextPrompt | TokenPrompt


@dataclass(frozen=True, slots=True)
class Turn:
    """One sequence to generate. ``choice`` separates the random streams of ``n`` choices."""

    request_id: str
    prompt: Prompt
    sampling: SamplingParams
    choice: int = 0
