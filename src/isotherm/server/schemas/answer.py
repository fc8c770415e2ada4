"""Parts that every generated answer carries: usage, and what was done to the request."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field


class PromptTokensDetails(BaseModel):
    """Where prompt tokens came from."""

    cached_tokens: int


class CompletionTokensDetails(BaseModel):
    """What completion tokens were spent on."""

    reasoning_tokens: int


class Usage(BaseModel):
    """Tokens of all choices together; a prompt is counted once however many choices it has."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails


class EffectiveValue(BaseModel):
    """A sampling value that was used, and who decided it."""

    value: Any
    origin: Literal["rule", "request", "operator", "profile", "model", "protocol", "upstream"]


class Warning_(BaseModel):
    """Something about the request that its sender should know."""

    param: str
    message: str


class ClampReport(BaseModel):
    """A value that was reduced."""

    param: str
    asked: int
    used: int
    reason: str


class IsothermReport(BaseModel):
    """What this server did with the request."""

    sampling: dict[str, EffectiveValue] = Field(description="Effective values with their origin.")
    greedy: bool = Field(description="True when the temperature is below the greedy threshold.")
    clamped: list[ClampReport]
    warnings: list[Warning_]


class ErrorDetail(BaseModel):
    """What is wrong, why, and what to do."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """The body of every answer that is not a success."""

    error: ErrorDetail
