"""Sampling values, their names, and where an effective value came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

GREEDY_BELOW = 1e-5
"""Temperatures under this are greedy: dividing float32 logits by less overflows (the one documented rule)."""


class Origin(StrEnum):
    """Who decided a value, strongest first."""

    RULE = "rule"
    REQUEST = "request"
    OPERATOR = "operator"
    PROFILE = "profile"
    MODEL = "model"
    PROTOCOL = "protocol"
    UPSTREAM = "upstream"


@dataclass(frozen=True, slots=True)
class Resolved:
    """An effective value with its origin."""

    value: Any
    origin: Origin


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Everything that decides which token comes next and when to stop, all values effective.

    ``top_k`` 0 is off, ``min_p`` 0 is off, ``top_p`` 1 is off. ``logprobs`` is None for none,
    0 for the sampled token alone, k for the k likeliest beside it.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    min_tokens: int = 0
    max_tokens: int = 16
    ignore_eos: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None

    @property
    def greedy(self) -> bool:
        return self.temperature < GREEDY_BELOW
