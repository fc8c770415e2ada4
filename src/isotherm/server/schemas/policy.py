"""GET /v1/policy: the table of effective values before a request has its say."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from isotherm.server.schemas.answer import EffectiveValue


class PolicyValue(EffectiveValue):
    """The value that applies when a request does not set it, and the values that it beat."""

    range: str
    help: str
    beaten: list[EffectiveValue]


class RefusedField(BaseModel):
    """A request field that is refused, except with one of the ``neutral`` values."""

    hint: str
    neutral: list[Any]


class FieldLists(BaseModel):
    """What happens to request fields that no schema declares; any other gives a warning."""

    refused: dict[str, RefusedField]
    ignored: list[str]


class Efforts(BaseModel):
    """What the words of ``chat_template_kwargs.reasoning_effort`` mean for the served checkpoint."""

    table: str
    reason: str = Field(description="What decided the table.")
    default: str = Field(description="What a request without a word means.")
    words: dict[str, str]


class Policy(BaseModel):
    """What this server does with requests."""

    object: Literal["isotherm.policy"]
    model: str
    max_model_len: int
    order: list[str] = Field(description="Who decides a value, strongest first.")
    sampling: dict[str, PolicyValue]
    protocol_by_route: dict[str, dict[str, int]] = Field(description="Protocol defaults that differ by route.")
    skipped_model_values: list[str] = Field(description="Values of the model's generation_config that are unusable.")
    greedy_below: float = Field(description="Temperatures under this are greedy.")
    null: str
    strict: bool
    efforts: Efforts | None = Field(description="Null for models without effort texts.")
    fields: FieldLists
