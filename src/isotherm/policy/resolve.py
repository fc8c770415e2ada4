"""Which value of each sampling field applies: request > operator > model > protocol, field by field.

Null counts as absent; 0 is a value like any other. Nothing is shared with the arguments, so a request
can never change what the next one gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isotherm.base.sampling import Origin, Resolved
from isotherm.policy.fields import FIELDS, PROTOCOL


def candidates(
    name: str,
    request: Mapping[str, Any],
    operator: Mapping[str, Any],
    model: Mapping[str, Any],
    protocol: Mapping[str, Any] = PROTOCOL,
) -> list[Resolved]:
    """Every value on offer for ``name``, the winner first, then those that it beat."""
    levels = (
        (Origin.REQUEST, request),
        (Origin.OPERATOR, operator),
        (Origin.MODEL, model),
    )
    found = [Resolved(values[name], origin) for origin, values in levels if values.get(name) is not None]
    return [*found, Resolved(protocol[name], Origin.PROTOCOL)]


def resolve(
    request: Mapping[str, Any],
    operator: Mapping[str, Any],
    model: Mapping[str, Any],
    protocol: Mapping[str, Any] = PROTOCOL,
) -> dict[str, Resolved]:
    """The effective value and origin of every sampling field.

    Args:
        request: what the client sent; None and absent are the same.
        operator: the operator's defaults, which need not name every field.
        model: the publisher's recommendation (``fields.model_values``).
        protocol: the default of last resort; a route with another protocol default passes its own.
    """
    return {name: candidates(name, request, operator, model, protocol)[0] for name in FIELDS}
