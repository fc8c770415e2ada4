"""Typed access to a model's description, whichever format wrote it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from isotherm.base.errors import SetupError


class Fields:
    """Fields of ``raw`` whose names begin with ``prefix``; a value of the wrong kind is a SetupError that names it.

    ``where`` names the file in messages.
    """

    def __init__(self, raw: Mapping[str, Any], where: str, prefix: str = "") -> None:
        self.raw = raw
        self.where = where
        self.prefix = prefix

    def get(self, name: str) -> Any:
        """The value as it is; None when it is absent."""
        return self.raw.get(self.prefix + name)

    def count(self, name: str, default: int | None = None) -> int:
        """A positive whole number."""
        value = self.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self._refusal(name, value, "a positive whole number")
        return value

    def whole(self, name: str, default: int) -> int:
        """A whole number of at least 0."""
        value = self.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._refusal(name, value, "a whole number of at least 0")
        return value

    def positive(self, name: str, default: float) -> float:
        """A positive, finite number."""
        value = self.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise self._refusal(name, value, "a positive number")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._refusal(name, value, "true or false")
        return value

    def _refusal(self, name: str, value: object, wanted: str) -> SetupError:
        return SetupError(f"{self.where}: {self.prefix}{name} must be {wanted}, not {value!r}.")
