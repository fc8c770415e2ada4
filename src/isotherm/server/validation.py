"""Turns a pydantic complaint into one sentence that names the field."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from isotherm.base.errors import RequestError

_SHOWN = 60
_BRANCHES = ("str", "int", "float", "bool", "list[", "constrained-", "function-", "dict[")


def field_path(location: Sequence[str | int]) -> str:
    """``("messages", 0, "content", "list[TextPart]", 1)`` becomes ``messages[0].content[1]``.

    Pydantic names the branch of a union in the location; a client knows nothing of branches.
    """
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif step not in _BRANCHES and not step.startswith(_BRANCHES[4:]):
            path += f".{step}" if path else step
    return path


def refusal(error: ValidationError) -> RequestError:
    """A 400 for the first wrong field, with what was sent, clipped."""
    errors = error.errors(include_url=False, include_context=False)
    field = errors[0]["loc"][:1]
    # Of a union's complaints the deepest belongs to the branch that the client meant.
    same_field = [detail for detail in errors if detail["loc"][:1] == field]
    depth = max(len(detail["loc"]) for detail in same_field)
    deepest = [detail for detail in same_field if len(detail["loc"]) == depth]
    path = field_path(deepest[0]["loc"])
    complaints = " or ".join(dict.fromkeys(_sentence(detail) for detail in deepest))
    sent = _clipped(deepest[0])
    message = f"{path or 'body'}: {complaints}{sent}"
    return RequestError(message, param=path or None, code="invalid_value")


def _sentence(detail: ErrorDetails) -> str:
    return detail["msg"].removeprefix("Value error, ").removeprefix("Input ")


def _clipped(detail: ErrorDetails) -> str:
    if detail["type"] in ("missing", "value_error"):
        return "."
    sent = repr(detail["input"])
    return f"; it is {sent if len(sent) <= _SHOWN else sent[:_SHOWN] + '...'}."
