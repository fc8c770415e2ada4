"""What all request bodies share: strict types, presence kept, unknown fields kept for the review."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from isotherm.policy.fields import FIELDS


class Body(BaseModel):
    """A request body. A field that is absent or null is None; ``model_fields_set`` tells which.

    Types are strict ("0.6" is not a number). Fields that the schema does not know stay in
    ``model_extra``, where ``fields.review`` honours, refuses or reports them.
    """

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False, protected_namespaces=())


def bounds(name: str) -> Any:
    """The range of a sampling value from the policy's table, as a pydantic constraint."""
    field = FIELDS[name]
    return Field(ge=field.low, gt=field.above, le=field.high, description=f"{field.help} Null counts as not set.")
