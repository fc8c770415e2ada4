"""Tells the tags of DeepSeek's call markup from text, in a stream.

A tag is ``<｜DSML｜word attributes>`` or ``</｜DSML｜word>``, on one line. Near spellings count too: those of V3.2
(``function_calls``) and V4.1 (a blank before the word), ASCII bars, a self-closing tag. Only text that may still
become a tag is held back.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

MARK = "｜DSML｜"
"""One token of the model; what stands around it is ordinary text."""
LONGEST = 512
"""Characters of a tag. A longer one is text, so that nothing is held back for ever."""
_STARTS = tuple(opening + mark for opening in ("<", "</") for mark in (MARK, MARK.replace("｜", "|")))
_BLOCK_WORDS = ("tool_calls", "toolcalls", "function_calls", "calls")
_WORDS = "|".join((*_BLOCK_WORDS, "invoke", "parameter"))
_ATTRIBUTE = r'(\w+)="([^"\n]*)"'
_ATTRIBUTES = r'(?: +\w+="[^"\n]*")*'
_TAG = re.compile(rf"<(/?)([｜|])DSML\2 ?({_WORDS})({_ATTRIBUTES}) *(/?)>")
_BEGUN = re.compile(
    rf'</?[｜|]DSML[｜|] ?(?:[a-z_]{{0,14}}|(?:{_WORDS}){_ATTRIBUTES}(?: +\w*(?:=(?:"[^"\n]*)?)?| */?))'
)
"""A tag without its end."""


class Kind(StrEnum):
    """What a tag is about."""

    BLOCK = "block"
    INVOKE = "invoke"
    PARAMETER = "parameter"


class Tag(NamedTuple):
    """A tag as it was written (``raw``) and what it says.

    ``string`` is the attribute that tells text from JSON, None where it is missing. ``bar`` is the bar it was
    written with.
    """

    raw: str
    kind: Kind
    bar: str
    closing: bool = False
    empty: bool = False
    name: str = ""
    string: bool | None = None


class TagReader:
    """Fed with text, gives text and tags in order; joined they are what was fed."""

    def __init__(self) -> None:
        self._held = ""

    def push(self, text: str) -> list[str | Tag]:
        """What is certain now."""
        text = self._held + text
        found: list[str | Tag] = []
        place = plain = 0
        while (place := text.find("<", place)) >= 0:
            tag = _tag_at(text, place)
            if tag is not None:
                found += [text[plain:place], tag] if plain < place else [tag]
                place = plain = place + len(tag.raw)
            elif _may_become_tag(text[place : place + LONGEST]):
                break
            else:
                place += 1
        end = place if place >= 0 else len(text)
        if plain < end:
            found.append(text[plain:end])
        self._held = text[end:]
        return found

    def end(self) -> str:
        """What was held back: no tag came of it."""
        held, self._held = self._held, ""
        return held


def holds_mark(text: str) -> bool:
    """Whether a tag was begun for certain, beyond its first signs."""
    return text.startswith(_STARTS)


def _may_become_tag(text: str) -> bool:
    if any(start.startswith(text) for start in _STARTS):
        return True
    return len(text) < LONGEST and _BEGUN.fullmatch(text) is not None


def _tag_at(text: str, place: int) -> Tag | None:
    match = _TAG.match(text, place, place + LONGEST)
    if match is None:
        return None
    slash, bar, word, attributes, empty = match.groups()
    named = dict(re.findall(_ATTRIBUTE, attributes))
    return Tag(
        raw=match[0],
        kind=Kind.BLOCK if word in _BLOCK_WORDS else Kind(word),
        bar=bar,
        closing=bool(slash),
        empty=bool(empty),
        name=named.get("name", "").strip(),
        string={"true": True, "false": False}.get(named.get("string", "")),
    )
