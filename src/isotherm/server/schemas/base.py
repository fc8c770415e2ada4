"""What all request bodies share: strict types, presence kept, unknown fields kept for the review."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from isotherm.base.errors import RequestError
from isotherm.policy.fields import FIELDS


class Body(BaseModel):
    """A request body. A field that is absent or null is None; ``model_fields_set`` tells which.

    Types are strict ("0.6" is not a number). Fields that the schema does not know stay in
    ``model_extra``, where ``fields.review`` refuses, ignores or reports them. Validators of one field
    raise ValueError; those of several raise ``conflict``, which names the field to change.
    """

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False, protected_namespaces=())


LARGEST = 2**31 - 1
"""Upper bound of counts and token ids: what every engine and JSON reader can hold."""


Quick = Field(fail_fast=True)
"""Stops a list at its first wrong item: a body of a million wrong items must not cost a million complaints."""

_DEEPEST = 32


def _shallow(value: dict[str, Any]) -> dict[str, Any]:
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return value
    raise ValueError(f"nested more than {_DEEPEST} levels deep")


JsonObject = Annotated[dict[str, Any], AfterValidator(_shallow)]
"""Free-form data for a chat template, which walks it recursively: its depth is bounded."""


def conflict(param: str, message: str) -> RequestError:
    """The refusal of a field that does not go with another one."""
    return RequestError(f"{param}: {message}.", param=param, code="invalid_value")


def bounds(name: str) -> Any:
    """The range of a sampling value from the policy's table, as a pydantic constraint."""
    field = FIELDS[name]
    return Field(ge=field.low, gt=field.above, le=field.high, description=f"{field.help} Null counts as not set.")
