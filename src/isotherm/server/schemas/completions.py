"""POST /v1/completions: request and answer of the legacy protocol."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, field_validator, model_validator

from isotherm.server.schemas.answer import IsothermReport, Usage
from isotherm.server.schemas.base import LARGEST, Quick, conflict
from isotherm.server.schemas.generate import MAX_TOP_LOGPROBS, GenerateBody, TokenId

MAX_PROMPTS = 1024
TokenIds = Annotated[list[TokenId], Field(min_length=1), Quick]


class CompletionRequest(GenerateBody):
    """A raw continuation. With echo, logprobs and max_tokens 0 it scores a prompt without adding to it."""

    prompt: (
        str
        | TokenIds
        | Annotated[list[str], Field(min_length=1, max_length=MAX_PROMPTS), Quick]
        | Annotated[list[TokenIds], Field(min_length=1, max_length=MAX_PROMPTS), Quick]
    ) = Field(description="Text, a list of texts, token ids, or a list of token id lists.")
    max_tokens: Annotated[int | None, Field(ge=0, le=LARGEST)] = Field(
        None, description="Most tokens to generate; absent: 16, as the protocol says. 0 needs echo."
    )
    logprobs: Annotated[int | None, Field(ge=0, le=MAX_TOP_LOGPROBS)] = Field(
        None, description="Log-probability of each token, and this many rivals."
    )
    echo: bool | None = Field(None, description="Start the answer with the prompt, its log-probabilities included.")

    @field_validator("prompt", mode="before")
    @classmethod
    def _few_prompts(cls, prompt: Any) -> Any:
        if isinstance(prompt, list) and len(prompt) > MAX_PROMPTS and not isinstance(prompt[0], int):
            raise ValueError(f"at most {MAX_PROMPTS} prompts are possible, not {len(prompt)}")
        return prompt

    @model_validator(mode="after")
    def _few_choices(self) -> CompletionRequest:
        choices = len(self.prompts()) * (self.n or 1)
        if choices > MAX_PROMPTS:
            raise conflict("n", f"{choices} choices of all prompts together are too many, {MAX_PROMPTS} are possible")
        return self

    @model_validator(mode="after")
    def _nothing_needs_echo(self) -> CompletionRequest:
        if self.max_tokens == 0 and not self.echo:
            raise conflict("max_tokens", "0 needs echo: true")
        return self

    def prompts(self) -> list[str | list[int]]:
        """The prompts, each a text or token ids."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return [prompt]
        if isinstance(prompt[0], int):
            return [[token for token in prompt if isinstance(token, int)]]
        return [item for item in prompt if not isinstance(item, int)]


class CompletionLogprobs(BaseModel):
    """Parallel lists, one entry a token. A token that is not whole characters is written ``bytes:\\x..``."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(BaseModel):
    """One continuation. Choices of prompt p have indices p * n to p * n + n - 1."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"]
    stop_reason: str | int | None


class Completion(BaseModel):
    """The answer that is not streamed."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage
    isotherm: IsothermReport
