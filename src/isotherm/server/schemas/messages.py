"""Chat messages: roles, text or text parts, and what belongs to each role."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from isotherm.server.schemas.base import Body, JsonObject, Quick

Role = Literal["system", "developer", "user", "assistant", "tool"]


MAX_MESSAGES = 10_000


class TextPart(Body):
    """A piece of content. This server takes text alone; images and audio are refused."""

    type: Literal["text"]
    text: str


class Message(Body):
    """One message. ``developer`` is rendered as ``system``, the name that chat templates know.

    An assistant's earlier reasoning is accepted under both names in use, ``reasoning_content`` and
    ``reasoning``; the model's template decides whether it is rendered.
    """

    role: Role
    content: str | Annotated[list[TextPart], Quick] | None = Field(
        None, description="Text, or a list of text parts that are joined."
    )
    name: str | None = None
    tool_calls: Annotated[list[JsonObject], Quick] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None

    @model_validator(mode="after")
    def _complete(self) -> Message:
        if self.content is None and not (self.role == "assistant" and self.tool_calls):
            raise ValueError(f"a message of role {self.role} needs content")
        if self.role == "tool" and self.tool_call_id is None:
            raise ValueError("a message of role tool needs tool_call_id")
        if self.role != "assistant" and self.tool_calls:
            raise ValueError("only a message of role assistant can carry tool_calls")
        return self

    def text(self) -> str:
        """The content as one text."""
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""

    def plain(self) -> dict[str, Any]:
        """The message as a chat template sees it."""
        message: dict[str, Any] = {
            "role": "system" if self.role == "developer" else self.role,
            "content": self.text(),
        }
        reasoning = self.reasoning_content if self.reasoning_content is not None else self.reasoning
        optional = {
            "name": self.name,
            "tool_calls": self.tool_calls or None,
            "tool_call_id": self.tool_call_id,
            "reasoning_content": reasoning,
        }
        return message | {key: value for key, value in optional.items() if value is not None}


Messages = Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES), Quick]
