"""The sampling values that a request, an operator or a model may set: names, ranges, protocol defaults.

This table is the only place that knows a range: request schemas, operator settings and a model's
generation_config are all held against it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isotherm.base.errors import SetupError


@dataclass(frozen=True, slots=True)
class SamplingField:
    """One value: its type, its closed range (``above`` instead of ``low`` for an open lower end) and its default.

    ``protocol`` is what the OpenAI protocol says when nobody sets the value; None means "no limit".
    """

    name: str
    kind: type[int] | type[float]
    protocol: float | int | None
    help: str
    low: float | None = None
    above: float | None = None
    high: float | None = None

    @property
    def range(self) -> str:
        """The range in words, for messages and documents."""
        parts = []
        if self.low is not None:
            parts.append(f"at least {self.low:g}")
        if self.above is not None:
            parts.append(f"above {self.above:g}")
        if self.high is not None:
            parts.append(f"at most {self.high:g}")
        return " and ".join(parts) or "any number"


_MOST = 2**31 - 1
_TABLE = (
    SamplingField("temperature", float, 1.0, "Sharpness of the distribution; 0 is greedy.", low=0, high=2),
    SamplingField("top_p", float, 1.0, "Keep the likeliest tokens up to this mass; 1 is off.", above=0, high=1),
    SamplingField("top_k", int, 0, "Keep this many likeliest tokens; 0 or -1 is off.", low=-1, high=_MOST),
    SamplingField("min_p", float, 0.0, "Drop tokens below this share of the likeliest one; 0 is off.", low=0, high=1),
    SamplingField("repetition_penalty", float, 1.0, "Divides the logits of seen tokens; 1 is off.", above=0, high=10),
    SamplingField("presence_penalty", float, 0.0, "Subtracted once from tokens already generated.", low=-2, high=2),
    SamplingField("frequency_penalty", float, 0.0, "Subtracted for each time a token was generated.", low=-2, high=2),
    SamplingField("max_tokens", int, None, "Most tokens to generate; clamped to the context.", low=1, high=_MOST),
)
FIELDS: Mapping[str, SamplingField] = {field.name: field for field in _TABLE}
PROTOCOL: Mapping[str, float | int | None] = {field.name: field.protocol for field in _TABLE}

COMPLETIONS_MAX_TOKENS = 16
"""The legacy completions protocol generates 16 tokens when nobody says otherwise; chat has no such default."""


def complaint(field: SamplingField, value: object) -> str | None:
    """Why ``value`` cannot be used for ``field``, or None when it can. NaN is outside every range."""
    allowed = (int,) if field.kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed):
        return f"{field.name} must be {'an integer' if field.kind is int else 'a number'}, not {value!r}"
    fits = (
        not math.isnan(value)
        and (field.low is None or value >= field.low)
        and (field.above is None or value > field.above)
        and (field.high is None or value <= field.high)
    )
    return None if fits else f"{field.name} must be {field.range}, not {value!r}"


def operator_values(given: Mapping[str, Any]) -> dict[str, float | int]:
    """Checked operator defaults; null means "not set".

    Raises:
        SetupError: a name that is not a sampling value, or a value outside its range.
    """
    values: dict[str, float | int] = {}
    for name, value in given.items():
        if name not in FIELDS:
            raise SetupError(f"default_sampling: {name!r} is not a sampling value. Known: {', '.join(FIELDS)}.")
        if value is None:
            continue
        if reason := complaint(FIELDS[name], value):
            raise SetupError(f"default_sampling: {reason}. Correct the setting and start again.")
        values[name] = value
    return values


def model_values(generation_config: Mapping[str, Any]) -> tuple[dict[str, float | int], list[str]]:
    """The usable values of a model's generation_config, and a sentence for each that cannot be used.

    Only sampling values count. ``do_sample`` and ``max_new_tokens`` belong to the publisher's examples,
    not to the distribution, and are left alone. A broken file must not stop a server: a bad value is
    skipped and shown.
    """
    values: dict[str, float | int] = {}
    skipped = []
    for name, field in FIELDS.items():
        value = generation_config.get(name)
        if value is None or name == "max_tokens":
            continue
        if reason := complaint(field, value):
            skipped.append(f"generation_config: {reason}")
        else:
            values[name] = value
    return values, skipped
