"""The kinds of value that a setting can hold: how each is read, checked and shown.

A value reaches us as text (flag, environment) or as what YAML made of it (file). ``parse`` turns
either into the one Python type that the program sees, or raises ValueError with a phrase that ends
a sentence: "port: needs a whole number from 0 to 65535, not 'http'".
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

AUTO = "auto"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_TIME_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


class Kind(ABC):
    """How one kind of value is read, checked and shown."""

    @property
    @abstractmethod
    def metavar(self) -> str:
        """What stands for a value in ``--help`` and in the reference."""

    @abstractmethod
    def parse(self, raw: object) -> object:
        """The value; raises ValueError with a phrase that says what is needed instead."""

    def show(self, value: object) -> str:
        """The value as a person would write it."""
        return AUTO if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Text(Kind):
    """Text that is not empty; one of ``choices`` if there are any; None when ``optional`` and unset."""

    choices: tuple[str, ...] = ()
    placeholder: str = "TEXT"
    optional: bool = False

    @property
    def metavar(self) -> str:
        return "{" + ",".join(self.choices) + "}" if self.choices else self.placeholder

    def parse(self, raw: object) -> object:
        if not isinstance(raw, str):
            raise ValueError(f"needs text, not {raw!r} (in YAML, put it in quotes)")
        if not raw.strip():
            raise ValueError("is empty: give a value or leave it out")
        if self.choices and raw not in self.choices:
            raise ValueError(f"needs one of {', '.join(self.choices)}, not {raw!r}")
        return raw

    def show(self, value: object) -> str:
        return "none" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Integer(Kind):
    """A whole number within bounds; with ``auto`` also the word auto, which reads as None."""

    minimum: int
    maximum: int
    auto: bool = False

    @property
    def metavar(self) -> str:
        return "N|auto" if self.auto else "N"

    def parse(self, raw: object) -> object:
        if self.auto and raw == AUTO:
            return None
        try:
            if isinstance(raw, bool) or not isinstance(raw, str | int):
                raise ValueError
            value = int(raw)
        except ValueError:
            raise ValueError(f"needs {self._range()}, not {raw!r}") from None
        if not self.minimum <= value <= self.maximum:
            raise ValueError(f"needs {self._range()}, not {value}")
        return value

    def _range(self) -> str:
        words = f"a whole number from {self.minimum} to {self.maximum}"
        return f"{words} or {AUTO}" if self.auto else words


@dataclass(frozen=True, slots=True)
class Size(Kind):
    """Bytes, plain or with a unit (``512MiB``, ``2GB``: 1024- and 1000-based); ``auto`` reads as None."""

    minimum: int = 1
    auto: bool = False

    @property
    def metavar(self) -> str:
        return "SIZE|auto" if self.auto else "SIZE"

    def parse(self, raw: object) -> object:
        if self.auto and raw == AUTO:
            return None
        match = None if isinstance(raw, bool | float) else _SIZE.fullmatch(str(raw).strip())
        if match is None:
            example = "a size such as 4194304, 512MiB or 2GB" + (" or auto" if self.auto else "")
            raise ValueError(f"needs {example}, not {raw!r}")
        number, prefix, binary = match.groups()
        base = 1024 if binary else 1000
        value = int(float(number) * base ** " kmgt".index(prefix.lower() or " "))
        if value < self.minimum:
            raise ValueError(f"needs at least {self.show(self.minimum)}, not {raw!r}")
        return value

    def show(self, value: object) -> str:
        if not isinstance(value, int):
            return AUTO
        for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
            if value >= 1024**power and value % 1024**power == 0:
                return f"{value // 1024**power} {unit}"
        return f"{value} bytes"


@dataclass(frozen=True, slots=True)
class Seconds(Kind):
    """A duration in seconds, plain or with a unit: ``30``, ``1.5s``, ``250ms``, ``10m``, ``1h``."""

    minimum: float
    maximum: float

    @property
    def metavar(self) -> str:
        return "SECONDS"

    def parse(self, raw: object) -> object:
        match = None if isinstance(raw, bool) else _TIME.fullmatch(str(raw).strip())
        if match is None:
            raise ValueError(f"needs a duration such as 30, 250ms or 10m, not {raw!r}")
        value = float(match[1]) * _TIME_UNITS[match[2] or "s"]
        if not self.minimum <= value <= self.maximum:
            raise ValueError(f"needs from {self.minimum:g} to {self.maximum:g} seconds, not {value:g}")
        return value

    def show(self, value: object) -> str:
        return f"{value:g} s"


@dataclass(frozen=True, slots=True)
class Switch(Kind):
    """On or off."""

    @property
    def metavar(self) -> str:
        return "true|false"

    def parse(self, raw: object) -> object:
        word = str(raw).strip().lower()
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
        raise ValueError(f"needs true or false, not {raw!r}")

    def show(self, value: object) -> str:
        return "on" if value else "off"


@dataclass(frozen=True, slots=True)
class JsonObject(Kind):
    """A JSON object; in YAML a mapping. A later source replaces the whole object, nothing is merged."""

    @property
    def metavar(self) -> str:
        return "JSON"

    def parse(self, raw: object) -> object:
        try:
            value = json.loads(raw, parse_constant=_refuse_constant) if isinstance(raw, str) else raw
        except ValueError as problem:
            raise ValueError(f"is not valid JSON ({problem})") from None
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise ValueError(f"needs a JSON object such as '{{\"temperature\": 0.6}}', not {raw!r}")
        return value

    def show(self, value: object) -> str:
        return json.dumps(dict(value)) if isinstance(value, Mapping) else str(value)


@dataclass(frozen=True, slots=True)
class TextList(Kind):
    """Texts: a YAML list, or one text with commas between."""

    @property
    def metavar(self) -> str:
        return "A,B,..."

    def parse(self, raw: object) -> object:
        items = raw.split(",") if isinstance(raw, str) else raw
        if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
            raise ValueError("needs texts: a list in YAML, commas between them elsewhere")
        values = tuple(item.strip() for item in items)
        if not values or not all(values):
            raise ValueError("has an empty item: give a value or leave it out")
        return values

    def show(self, value: object) -> str:
        return ", ".join(value) if isinstance(value, tuple) and value else "none"


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")
