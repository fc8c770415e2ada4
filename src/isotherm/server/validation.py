"""Turns a pydantic complaint into one sentence that names the field."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from isotherm.base.errors import RequestError

_SHOWN = 60
_KEY = "[key]"
_SENTENCES = {
    "missing": "is required",
    "string_pattern_mismatch": "keys are token ids in digits",
    "model_type": "should be an object",
}
_BRANCHES = ("str", "int", "float", "bool", "list[", "constrained-", "function-", "dict[", "literal[", "NamedTool")


def field_path(location: Sequence[str | int]) -> str:
    """``("messages", 0, "content", "list[TextPart]", 1)`` becomes ``messages[0].content[1]``.

    Pydantic names the branch of a union in the location; a client knows nothing of branches.
    """
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif step != _KEY and step not in _BRANCHES and not step.startswith(_BRANCHES[4:]):
            path += f".{step}" if path else step
    return path


def refusal(error: ValidationError) -> RequestError:
    """A 400 for the first wrong field, with what was sent, clipped."""
    errors = error.errors(include_url=False, include_context=False)
    field = errors[0]["loc"][:1]
    # Of a union's complaints the deepest belongs to the branch that the client meant.
    deepest = max((detail for detail in errors if detail["loc"][:1] == field), key=lambda detail: len(detail["loc"]))
    path = field_path(deepest["loc"])
    same = [detail for detail in errors if field_path(detail["loc"]) == path]
    complaints = " or ".join(dict.fromkeys(_sentence(detail) for detail in same))
    return RequestError(f"{path}: {complaints}{_sent(deepest)}", param=path, code="invalid_value")


def _sentence(detail: ErrorDetails) -> str:
    sentence = _SENTENCES.get(detail["type"]) or detail["msg"].removeprefix("Value error, ")
    return sentence.removeprefix("Input ").removeprefix("List ").removeprefix("String ")


def _sent(detail: ErrorDetails) -> str:
    if detail["type"] in ("missing", "value_error"):
        return "."
    sent = msgspec.json.encode(detail["input"]).decode()
    return f"; it is {sent if len(sent) <= _SHOWN else sent[:_SHOWN] + '...'}."
