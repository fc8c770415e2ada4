"""POST /tokenize and /detokenize: requests and answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field, model_validator

from isotherm.server.schemas.base import Body, JsonObject, Quick, conflict
from isotherm.server.schemas.generate import TokenId
from isotherm.server.schemas.messages import Messages
from isotherm.server.schemas.tools import Tools


class TokenizeRequest(Body):
    """A text (``prompt``) or a chat (``messages``), not both."""

    model: str | None = None
    prompt: str | None = None
    messages: Messages | None = None
    add_generation_prompt: bool | None = Field(None, description="For messages; absent: true.")
    chat_template_kwargs: JsonObject | None = None
    tools: Tools | None = Field(None, description="Functions that the chat offers.")
    return_token_strs: bool | None = Field(None, description="Add the text of each token.")

    @model_validator(mode="after")
    def _one_of_two(self) -> TokenizeRequest:
        if (self.prompt is None) == (self.messages is None):
            raise conflict("prompt", "send either prompt or messages")
        return self


class TokenizeResponse(BaseModel):
    """Ids in order."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class DetokenizeRequest(Body):
    """Token ids."""

    model: str | None = None
    tokens: Annotated[list[TokenId], Quick]


class DetokenizeResponse(BaseModel):
    """The text."""

    prompt: str
