"""An argument that a model wrote becomes JSON, by what the function's schema says about it.

Always valid JSON, and nothing is lost: what is no JSON is given as the text that it is. Three spellings are
mended where the schema asks for it: a number, truth value, list or object written as text; text written as JSON
of another type; Python's ``True``, ``False`` and ``None``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

_PYTHON = {"True": "true", "False": "false", "None": "null"}
_KNOWN = ("string", "integer", "number", "boolean", "array", "object", "null")


class Argument:
    """One value as it comes. Text is passed on at once; what must be read as JSON waits for its end.

    Args:
        string: what the markup says: text, JSON, or nothing.
        schema: the parameter's JSON schema, empty if there is none.
    """

    def __init__(self, string: bool | None, schema: Mapping[str, Any]) -> None:
        self._string = string
        self._types = _types(schema)
        self._passing = string is True and self._takes("string")
        self._held: list[str] = []
        self._opened = False

    def push(self, text: str) -> str:
        """The JSON that is certain now."""
        if not self._passing:
            self._held.append(text)
            return ""
        quote = "" if self._opened else '"'
        self._opened = True
        return quote + _quoted(text)[1:-1]

    def end(self) -> str:
        """The rest of the JSON."""
        if self._passing:
            return '"' if self._opened else '""'
        text = "".join(self._held)
        return self._text_as_json(text) if self._string else self._json(text)

    def _text_as_json(self, text: str) -> str:
        """The schema does not take text."""
        written = _spelled(text)
        return written if written is not None and self._fits(json.loads(written)) else _quoted(text)

    def _json(self, text: str) -> str:
        written = None if self._string is None and "string" in self._types else _spelled(text)
        if written is None:
            return _quoted(text)
        value = json.loads(written)
        wants_text = "string" in self._types and value is not None and not self._fits(value)
        return _quoted(text) if wants_text else written

    def _fits(self, value: Any) -> bool:
        return any(self._takes(name) for name in _names(value))

    def _takes(self, name: str) -> bool:
        return not self._types or name in self._types


def read_object(text: str) -> dict[str, Any] | None:
    """A JSON object, or None when the text is none."""
    value = read_json(text)
    return value if isinstance(value, dict) else None


def read_json(text: str) -> Any:
    """The value; None for ``null`` and for what is no JSON (NaN is none)."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def _spelled(text: str) -> str | None:
    """The text as valid JSON, None when it is none."""
    word = text.strip()
    word = _PYTHON.get(word, word)
    return word if word == "null" or read_json(word) is not None else None


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    """Names of the JSON types that a schema takes; empty when it does not say so plainly."""
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(alternatives, list):
        found = [_types(each) if isinstance(each, Mapping) else frozenset[str]() for each in alternatives]
        return frozenset().union(*found) if all(found) else frozenset()
    written = schema.get("type")
    names = [written] if isinstance(written, str) else written if isinstance(written, list) else []
    return frozenset(names) if all(name in _KNOWN for name in names) else frozenset()


def _names(value: Any) -> tuple[str, ...]:
    """What JSON schema calls the type of a value."""
    if isinstance(value, bool):
        return ("boolean",)
    if isinstance(value, int | float):
        return ("integer", "number") if isinstance(value, int) or value.is_integer() else ("number",)
    names = {str: "string", list: "array", dict: "object"}
    return (next((name for kind, name in names.items() if isinstance(value, kind)), "null"),)
