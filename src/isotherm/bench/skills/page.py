"""A small HTML page: every element that a script or a handler speaks of must be there."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser

from isotherm.bench.skills.item import Answer, Item, Mode, thoughts, user
from isotherm.bench.skills.source import Source

NAME = "page"
TASKS = (
    ("Write ", "Make ", "Build ", "Please write ", "Create "),
    ("an HTML page", "a small web page", "a page in HTML"),
    (" with ", " that has "),
)
VOID = ("input", "br", "hr", "meta", "link", "img")

Part = tuple[str, list[str], list[str], list[str]]
"""What is asked for, lines of the body, lines of the script, words that must be seen."""


def make(source: Source, mode: Mode, size: float) -> Item:
    """One to three parts, each a control with its handler."""
    count = source.number(1, 1 + round(2 * size))
    parts = [source.pick(PARTS)(source) for _ in range(count)]
    wanted = " and ".join(part[0] for part in parts)
    task = source.template(*TASKS) + wanted + "."
    body = [line for part in parts for line in part[1]]
    script = [line for part in parts for line in part[2]]
    lines = ["<!doctype html>", "<body>", *body, "<script>", *script, "</script>", "</body>"]
    ids = re.findall(r'id="(\w+)"', "\n".join(body))
    functions = re.findall(r"function (\w+)", "\n".join(script))
    reasoning = thoughts(
        mode,
        f"The ids are {', '.join(ids)}; the functions are {', '.join(functions)}.",
        f"The page needs {wanted}.",
        "Each handler calls one of these functions, and each function uses one of these ids.",
    )
    facts = {"seen": [word for part in parts for word in part[3]], "handlers": len(parts)}
    return Item(NAME, [user(task)], mode, Answer("\n".join(lines), reasoning), facts)


def _message(source: Source) -> Part:
    label, text = source.names(2)
    place, function = label + "Text", "show" + label
    body = [f'<button onclick="{function}()">{label}</button>', f'<p id="{place}"></p>']
    script = [f"function {function}() {{", f'  document.getElementById("{place}").textContent = "{text}";', "}"]
    return f"a button {label} that shows {text}", body, script, [label, text]


def _counter(source: Source) -> Part:
    label = source.name()
    place, function = label + "Count", "count" + label
    body = [f'<button onclick="{function}()">{label}</button>', f'<p id="{place}">0</p>']
    script = [f"function {function}() {{", f'  document.getElementById("{place}").textContent++;', "}"]
    return f"a button {label} that counts clicks", body, script, [label]


def _toggle(source: Source) -> Part:
    label, text = source.names(2)
    place, function = label + "Box", "toggle" + label
    body = [f'<button onclick="{function}()">{label}</button>', f'<div id="{place}">{text}</div>']
    script = [f"function {function}() {{", f'  document.getElementById("{place}").hidden ^= true;', "}"]
    return f"a button {label} that hides {text}", body, script, [label, text]


def _copy(source: Source) -> Part:
    label = source.name()
    field, place, function = label + "In", label + "Out", "copy" + label
    body = [f'<input id="{field}">', f'<button onclick="{function}()">{label}</button>', f'<p id="{place}"></p>']
    value = f'document.getElementById("{field}").value'
    script = [f"function {function}() {{", f'  document.getElementById("{place}").textContent = {value};', "}"]
    return f"a field with a button {label} that copies it", body, script, [label]


PARTS: tuple[Callable[[Source], Part], ...] = (_message, _counter, _toggle, _copy)


class _Reader(HTMLParser):
    """Collects ids, handlers, scripts and text; notes tags that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.handlers: list[str] = []
        self.script, self.text = "", ""
        self.open: list[str] = []
        self.broken = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name.startswith("on"):
                self.handlers.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        self.broken |= not self.open or self.open.pop() != tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.script += data
        else:
            self.text += data


def right(item: Item, answer: Answer) -> bool:
    """Tags match, ids are unique, every id and function that is spoken of exists, and what was asked for is there."""
    page = re.sub(r"^\s*```\w*\n|\n```\s*$", "", answer.content)
    reader = _Reader()
    reader.feed(page)
    reader.close()
    called = re.findall(r"getElementById\([\"'](.*?)[\"']\)|querySelector\([\"']#(.*?)[\"']\)", page)
    used = {first or second for first, second in called}
    defined = set(re.findall(r"function (\w+)", reader.script)) | set(re.findall(r"(\w+) = \(", reader.script))
    calls = [re.findall(r"(\w+)\(", handler) for handler in reader.handlers]
    return (
        not answer.calls
        and not (reader.broken or reader.open)
        and len(set(reader.ids)) == len(reader.ids)
        and bool(used)
        and used <= set(reader.ids)
        and len(calls) >= item.facts["handlers"]
        and all(names and set(names) <= defined | {"getElementById"} for names in calls)
        and _balanced(reader.script)
        and all(word in page for word in item.facts["seen"])
    )


def _balanced(script: str) -> bool:
    bare = re.sub(r"\"[^\"\n]*\"|'[^'\n]*'", "", script)
    return all(bare.count(a) == bare.count(b) for a, b in ("()", "{}")) and not set(bare) & {'"', "'"}
