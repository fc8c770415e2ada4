"""POST /v1/chat/completions: request and answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from isotherm.server.schemas.answer import IsothermReport, Usage
from isotherm.server.schemas.base import JsonObject, bounds, conflict
from isotherm.server.schemas.generate import MAX_TOP_LOGPROBS, GenerateBody
from isotherm.server.schemas.messages import Messages
from isotherm.server.schemas.tools import ToolCall, ToolChoice, Tools, check_choice


class ChatRequest(GenerateBody):
    """A chat. Fields that this server does not know are reported in ``isotherm.warnings``."""

    messages: Messages
    max_tokens: Annotated[int | None, bounds("max_tokens")] = Field(
        None, description="Most tokens to generate, reasoning included; absent: as many as the context has room for."
    )
    max_completion_tokens: Annotated[int | None, bounds("max_tokens")] = Field(
        None, description="Wins over max_tokens."
    )
    logprobs: bool | None = None
    top_logprobs: Annotated[int | None, Field(ge=0, le=MAX_TOP_LOGPROBS)] = Field(
        None, description="Likeliest rivals shown beside each token; needs logprobs: true. Null and 0 show none."
    )
    chat_template_kwargs: JsonObject | None = Field(None, description="Handed to the model's chat template.")
    add_generation_prompt: bool | None = Field(None, description="Open the assistant's turn; absent: true.")
    tools: Tools | None = Field(None, description="Functions that the model may call.")
    tool_choice: ToolChoice | None = Field(
        None,
        description="Absent and auto leave it to the model; none hides the tools; required, or a function by name, "
        "begins a call in the prompt (DeepSeek-V4: not while it thinks).",
    )
    parallel_tool_calls: bool | None = Field(
        None, description="False: the first call alone reaches the client. Absent: true."
    )

    @model_validator(mode="after")
    def _fields_agree(self) -> ChatRequest:
        if self.top_logprobs and not self.logprobs:
            raise conflict("top_logprobs", "needs logprobs: true")
        check_choice(self.tools or [], self.tool_choice)
        return self

    def sampling_values(self) -> dict[str, Any]:
        values = super().sampling_values()
        if self.max_completion_tokens is not None:
            values["max_tokens"] = self.max_completion_tokens
        return values

    def wanted_logprobs(self) -> int | None:
        """None for none, else the number of rivals."""
        return (self.top_logprobs or 0) if self.logprobs else None


class ChatTopLogprob(BaseModel):
    """A rival of a token."""

    token: str
    logprob: float
    bytes: list[int]


class ChatLogprob(ChatTopLogprob):
    """A generated token, with its rivals."""

    top_logprobs: list[ChatTopLogprob]


class ChatLogprobs(BaseModel):
    """One entry for each generated token: those of the answer and those of the reasoning."""

    content: list[ChatLogprob]
    reasoning_content: list[ChatLogprob] | None = None


class AnswerMessage(BaseModel):
    """What the model said."""

    role: Literal["assistant"]
    content: str | None = Field(description="Null when the answer is calls alone.")
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = Field(None, description="Absent without calls.")
    refusal: None = None


class ChatChoice(BaseModel):
    """One answer. ``stop_reason`` is the stop text or token id that ended it.

    ``unfinished_tool_call`` is the markup of a call that the end cut off: it is in no ``tool_calls``, though a
    stream has sent pieces of it. ``text_after_tool_calls`` is what came behind the calls, where no text belongs.
    ``reasoning_end`` is there when thinking did not end well. ``unterminated``: it never closed, so that its
    text is the content (a stream has sent it as reasoning before). ``starved``: it used up all the tokens.
    """

    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls"]
    stop_reason: str | int | None
    reasoning_end: Literal["unterminated", "starved"] | None = None
    unfinished_tool_call: str | None = None
    text_after_tool_calls: str | None = None


class ChatCompletion(BaseModel):
    """The answer to a chat that is not streamed."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    isotherm: IsothermReport
