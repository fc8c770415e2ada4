"""Function calls of DeepSeek-V4: blocks of ``<｜DSML｜...>`` tags in the answer.

- A call begins with its first parameter, or with its end if it has none, and only if its function was offered.
  Any other markup is text of the answer, to the character: a call to an unknown function, a tag that the answer
  merely mentions, a block that holds something else.
- What is wrong in a call that was begun is mended (``chat.arguments``), since it was told to the client already.
  A missing end of a parameter, a call or a block is supplied by what follows at the start of a line.
- Behind the calls the layout has no text: what comes there is set aside.
- A call that the answer's end cuts off is never done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from isotherm.base.outcome import CallPiece
from isotherm.chat.arguments import Argument, read_object
from isotherm.chat.calls import CallParser, Event, Offer, new_id
from isotherm.chat.dsml_tags import Kind, Tag, TagReader, holds_mark

MAX_GAP = 16
"""New lines that are held back because calls may follow; more are let through, so that a loop shows."""


class _Place(StrEnum):
    OUTSIDE = "outside"
    CALL = "call"
    VALUE = "value"


class DsmlParser(CallParser):
    """See ``CallParser``. ``make_id`` names calls."""

    def __init__(self, offer: Offer, make_id: Callable[[], str] = new_id) -> None:
        self.calls = 0
        self.complete = 0
        self.unfinished = ""
        self._after: list[str] = []
        self._offer = offer
        self._make_id = make_id
        self._reader = TagReader()
        self._events: list[Event] = []
        self._place = _Place.OUTSIDE
        self._gap = ""
        self._head = "" if offer.opened else None
        """A block's opening tag and what was held before it, until something decides whether they are text."""
        self._call: _Call | None = None

    @property
    def text_after(self) -> str:
        return "".join(self._after).strip("\n")

    def feed(self, text: str) -> list[Event]:
        for item in self._reader.push(text):
            self._take(item)
        return self._given()

    def finish(self, *, natural: bool) -> list[Event]:
        rest = self._reader.end()
        if rest and (natural or self._place is not _Place.OUTSIDE):
            self._take(rest)
            rest = ""
        head = self._head or ""
        if self._call is not None:
            self._end_open_call(self._call, natural)
        elif not natural and (head.strip() or holds_mark(rest)):
            self.unfinished = head + self._gap + rest
        else:
            self._show(head + self._gap + rest)
        return self._given()

    def _given(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _take(self, item: str | Tag) -> None:
        if self._place is _Place.OUTSIDE or self._call is None:
            self._take_outside(item)
        elif self._place is _Place.CALL:
            self._take_in_call(self._call, item)
        else:
            self._take_in_value(self._call, item)

    # Outside of calls.

    def _take_outside(self, item: str | Tag) -> None:
        if isinstance(item, str):
            self._take_text(item)
        elif item.kind is Kind.BLOCK and not item.closing:
            self._head = (self._head if self._head is not None else self._gap) + item.raw
            self._gap = ""
        elif item.kind is Kind.BLOCK and (self._head is not None or self.calls):
            self._head, self._gap = None, ""
        elif item.kind is Kind.INVOKE and not item.closing:
            self._open_call(item)
        else:
            self._take_text(item.raw)

    def _take_text(self, text: str) -> None:
        if self._head is not None and (not text or text.isspace()):
            self._head += text
            return
        text = (self._head or "") + self._gap + text
        self._head = None
        shown = text.rstrip("\n")
        shown = text[: max(len(shown), len(text) - MAX_GAP)]
        self._gap = text[len(shown) :]
        self._show(shown)

    def _show(self, text: str) -> None:
        """Text of the answer, or behind its calls."""
        if self.calls:
            self._after.append(text)
        elif text:
            self._events.append(text)

    # In a call.

    def _open_call(self, tag: Tag) -> None:
        before = self._head if self._head is not None else self._gap
        self._gap = ""
        if self._offer.single and self.calls:
            fate = _Fate.ASIDE
        else:
            fate = _Fate.CALL if tag.name in self._offer.functions else _Fate.TEXT
        self._call = _Call(tag, fate, self._offer.functions.get(tag.name, {}))
        self._place = _Place.CALL
        self._head = None
        self._keep(self._call, before + tag.raw)
        if tag.empty:
            self._close_call(self._call)

    def _keep(self, call: _Call, raw: str) -> None:
        """Markup: remembered while it is a call's, shown where it is text."""
        if call.fate is _Fate.CALL:
            call.raw.append(raw)
        elif call.fate is _Fate.TEXT:
            self._events.append(raw)
        else:
            self._after.append(raw)

    def _take_in_call(self, call: _Call, item: str | Tag) -> None:
        if isinstance(item, str):
            self._take_between(call, item)
        elif item.kind is Kind.PARAMETER and not item.closing:
            self._open_value(call, item)
        elif item.kind is Kind.INVOKE and item.closing:
            self._keep(call, item.raw)
            self._close_call(call)
        elif item.kind is Kind.INVOKE or (item.kind is Kind.BLOCK and item.closing):
            self._close_call(call)
            self._take(item)
        else:
            self._take_between(call, item.raw)

    def _take_between(self, call: _Call, text: str) -> None:
        """Text in a call but in no parameter: an object of all arguments, or nothing known."""
        self._keep(call, text)
        if call.fate is not _Fate.CALL:
            return
        if call.begun:
            self._after.append(text.strip())
        elif not call.take_body(text):
            self._reject(call)

    def _reject(self, call: _Call) -> None:
        """It is no call after all."""
        call.fate = _Fate.TEXT
        self._events.append("".join(call.raw))
        call.raw.clear()

    def _open_value(self, call: _Call, tag: Tag) -> None:
        self._keep(call, tag.raw)
        if call.fate is _Fate.CALL and call.body:
            self._reject(call)
        if call.fate is _Fate.CALL:
            opening = ", " if call.begun else "{"
            self._begin(call)
            self._argue(call, f"{opening}{json.dumps(tag.name, ensure_ascii=False)}: ")
        call.open_value(tag)
        self._place = _Place.VALUE
        if tag.empty:
            self._close_value(call)

    def _begin(self, call: _Call) -> None:
        if not call.begun:
            call.begun = True
            call.index = self.calls
            self.calls += 1
            self._events.append(CallPiece(call.index, id=self._make_id(), name=call.name))

    def _argue(self, call: _Call, arguments: str) -> None:
        if arguments and call.fate is _Fate.CALL:
            self._events.append(CallPiece(call.index, arguments=arguments))

    def _close_call(self, call: _Call) -> None:
        """It is done, unless what it held makes no arguments."""
        if call.fate is _Fate.CALL and not call.begun and call.body and read_object(call.body) is None:
            self._reject(call)
        if call.fate is _Fate.CALL:
            ending = "}" if call.begun else call.body or "{}"
            self._begin(call)
            self._argue(call, ending)
            self._events.append(CallPiece(call.index, done=True))
            self.complete += 1
        self._call = None
        self._place = _Place.OUTSIDE

    # In a parameter's value.

    def _take_in_value(self, call: _Call, item: str | Tag) -> None:
        if isinstance(item, str):
            self._keep(call, item)
            self._argue(call, call.take_value(item))
        elif item.kind is Kind.PARAMETER and item.closing and item.bar == call.bar:
            self._keep(call, item.raw)
            self._argue(call, call.flush())
            self._close_value(call)
        elif call.ends_unclosed_value(item):
            self._close_value(call)
            self._take(item)
        else:
            self._keep(call, item.raw)
            self._argue(call, call.take_value(item.raw))

    def _close_value(self, call: _Call) -> None:
        self._argue(call, call.argument.end())
        self._place = _Place.CALL

    def _end_open_call(self, call: _Call, natural: bool) -> None:
        """The answer ends in a call: one whose parameters are all closed was meant to be complete."""
        if call.fate is not _Fate.CALL:
            return
        if natural and call.begun and self._place is _Place.CALL:
            self._close_call(call)
        elif natural and not call.begun:
            self._reject(call)
        else:
            self.unfinished = "".join(call.raw)


class _Fate(StrEnum):
    """What becomes of a call's markup."""

    CALL = "call"
    TEXT = "text"
    ASIDE = "aside"


class _Call:
    """One ``invoke``. ``raw`` is its markup so far, ``body`` the text in it before any parameter."""

    def __init__(self, tag: Tag, fate: _Fate, schema: Mapping[str, Any]) -> None:
        self.name = tag.name
        self.bar = tag.bar
        self.fate = fate
        self.raw: list[str] = []
        self._body: list[str] = []
        self.begun = False
        self.index = 0
        self.argument = Argument(None, {})
        properties = schema.get("properties")
        self._properties = properties if isinstance(properties, Mapping) else {}
        self._newline = ""
        self._line_start = True

    @property
    def body(self) -> str:
        return "".join(self._body).strip()

    def take_body(self, text: str) -> bool:
        """Whether it can still become an object."""
        if not self._body:
            text = text.lstrip()
        if text:
            self._body.append(text)
        return not self._body or self._body[0].startswith("{")

    def open_value(self, tag: Tag) -> None:
        schema = self._properties.get(tag.name)
        self.argument = Argument(tag.string, schema if isinstance(schema, Mapping) else {})
        self._newline, self._line_start = "", True

    def take_value(self, text: str) -> str:
        """JSON of a piece of the value. A new line at its end waits: before a missing end tag it is layout."""
        text = self._newline + text
        self._newline = "\n" if text.endswith("\n") else ""
        self._line_start = bool(self._newline)
        return self.argument.push(text.removesuffix("\n"))

    def flush(self) -> str:
        """The new line that waited belongs to the value."""
        newline, self._newline = self._newline, ""
        return self.argument.push(newline) if newline else ""

    def ends_unclosed_value(self, tag: Tag) -> bool:
        """Whether a tag shows that the end of the parameter was left out."""
        opens_next = tag.kind is Kind.PARAMETER and not tag.closing
        closes_outer = tag.kind is not Kind.PARAMETER and tag.closing
        return self._line_start and tag.bar == self.bar and (opens_next or closes_outer)
