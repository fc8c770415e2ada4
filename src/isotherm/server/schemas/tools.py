"""Functions that a model may call: how a request offers them, and the calls of an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from isotherm.server.schemas.base import Body, JsonObject, Quick, conflict

MAX_TOOLS = 512
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("a name is 1 to 128 of a-z, A-Z, 0-9, _ and -")
    return name


FunctionName = Annotated[str, AfterValidator(_named)]


class FunctionTool(Body):
    """A function: its name, what it is for, and a JSON schema of its arguments."""

    name: FunctionName
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None


class Tool(Body):
    """Something that the model may use. Functions are all there is."""

    type: Literal["function"]
    function: FunctionTool

    def plain(self) -> dict[str, Any]:
        """The tool as a prompt takes it: what is absent or null left out."""
        declared = FunctionTool.model_fields
        function = {name: value for name in declared if (value := getattr(self.function, name)) is not None}
        return {"type": "function", "function": function}


class NamedFunction(Body):
    """The one to call."""

    name: str


class NamedTool(Body):
    """A choice of one function."""

    type: Literal["function"]
    function: NamedFunction


Tools = Annotated[list[Tool], Field(max_length=MAX_TOOLS), Quick]
ToolChoice = Literal["none", "auto", "required"] | NamedTool


def check_choice(tools: Sequence[Tool], choice: str | NamedTool | None) -> None:
    """Passes when names are unique and the choice can be made.

    Raises:
        RequestError: 400 that names the field.
    """
    names = [tool.function.name for tool in tools]
    if len(set(names)) < len(names):
        raise conflict("tools", "each function needs a name of its own")
    if choice == "required" and not names:
        raise conflict("tool_choice", "a call is required, but no tools are offered")
    if isinstance(choice, NamedTool) and choice.function.name not in names:
        raise conflict("tool_choice", f"no tool has the name {choice.function.name[:100]!r}")


class CalledFunction(BaseModel):
    """What to call, and with what: a JSON object as text."""

    name: str
    arguments: str


class ToolCall(BaseModel):
    """A complete call. Its result comes back as a message of role ``tool`` with ``tool_call_id``."""

    id: str
    type: Literal["function"]
    function: CalledFunction
