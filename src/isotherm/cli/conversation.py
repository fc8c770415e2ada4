"""A conversation in the terminal: messages, the values that the user set, and the slash commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from isotherm.base.errors import IsothermError
from isotherm.base.sampling import SamplingParams
from isotherm.settings.load import nearest

SETTABLE = (
    *(item.name for item in fields(SamplingParams) if not item.name.endswith("logprobs")),
    "max_completion_tokens",
    "chat_template_kwargs",
)
"""What ``/set`` accepts: fields of a request that change the answer and make sense in a terminal."""


class CommandError(IsothermError):
    """A slash command was not understood; nothing changed."""


@dataclass(slots=True)
class Conversation:
    """Messages sent so far, oldest first, and the values to send with the next request."""

    model: str
    system: str | None = None
    values: dict[str, Any] = field(default_factory=dict)
    turns: list[dict[str, str]] = field(default_factory=list)
    report: Mapping[str, Any] = field(default_factory=dict)

    @property
    def messages(self) -> list[dict[str, str]]:
        head = [] if self.system is None else [{"role": "system", "content": self.system}]
        return head + self.turns

    def body(self, text: str) -> dict[str, Any]:
        """A request that continues the conversation with the user's ``text``."""
        return {"model": self.model, "messages": [*self.messages, {"role": "user", "content": text}], **self.values}

    def add(self, text: str, answer: str) -> None:
        self.turns += [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]

    def command(self, line: str) -> str:
        """Carry out ``/name rest``; gives what to tell the user. ``/quit`` is the caller's business."""
        name, _, rest = line.strip().partition(" ")
        if name not in COMMANDS:
            raise CommandError(f"{name} is not a command.{nearest(name, [*COMMANDS, '/quit'])} /help lists them.")
        return COMMANDS[name][0](self, rest.strip())


def parse_value(name: str, text: str) -> Any:
    """The value of ``/set name text``: JSON where it is JSON, else the text itself."""
    if name not in SETTABLE:
        raise CommandError(f"{name!r} cannot be set.{nearest(name, SETTABLE)} Names: {', '.join(SETTABLE)}.")
    if not text:
        raise CommandError(f"/set {name} needs a value, for example: /set temperature 0.6")
    try:
        return json.loads(text)
    except ValueError:
        return text


def _set(talk: Conversation, rest: str) -> str:
    name, _, text = rest.partition(" ")
    talk.values[name] = parse_value(name, text.strip())
    return f"{name} = {json.dumps(talk.values[name])} (origin: request, from the next message on)"


def _unset(talk: Conversation, rest: str) -> str:
    if rest not in talk.values:
        raise CommandError(f"{rest or 'Nothing'} is not set.{nearest(rest, talk.values)} /show lists what is.")
    del talk.values[rest]
    return f"{rest} is left to the server again"


def _show(talk: Conversation, rest: str) -> str:
    lines = [f"model     {talk.model}", f"system    {talk.system or 'none'}", f"messages  {len(talk.turns)}"]
    lines += [f"set       {name} = {json.dumps(value)}" for name, value in talk.values.items()]
    return "\n".join([*lines, *origin_lines(talk.report)])


def _system(talk: Conversation, rest: str) -> str:
    talk.system = rest or None
    return f"system message: {talk.system or 'none'}"


def _save(talk: Conversation, rest: str) -> str:
    if not rest:
        raise CommandError("/save needs a file name")
    record = {"model": talk.model, "messages": talk.messages, "values": talk.values}
    try:
        Path(rest).expanduser().write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    except OSError as problem:
        raise CommandError(f"Cannot write {rest}: {problem.strerror}") from None
    return f"saved {len(talk.messages)} messages to {rest}"


def _clear(talk: Conversation, rest: str) -> str:
    talk.turns.clear()
    return "forgot the messages; system message and set values stay"


def _help(talk: Conversation, rest: str) -> str:
    lines = [f"{name:<9} {text}" for name, (_, text) in COMMANDS.items()]
    more = [
        "/quit     leave (also Ctrl-D)",
        "Ctrl-C    stop the answer",
        '"""       starts and ends a text of several lines',
    ]
    return "\n".join(lines + more)


COMMANDS: dict[str, tuple[Callable[[Conversation, str], str], str]] = {
    "/set": (_set, "set a value for the next messages: /set temperature 0.6"),
    "/unset": (_unset, "leave a value to the server again: /unset temperature"),
    "/show": (_show, "show what is set, and the origin of each value of the last answer"),
    "/system": (_system, "set the system message; alone, remove it"),
    "/save": (_save, "write the conversation to a file, as JSON"),
    "/clear": (_clear, "forget the messages"),
    "/help": (_help, "this list"),
}


def origin_lines(report: Mapping[str, Any]) -> list[str]:
    """The effective values of an answer, one line an origin, in the order that the server gave."""
    groups: dict[str, list[str]] = {}
    for name, item in (report.get("sampling") or {}).items():
        groups.setdefault(str(item.get("origin")), []).append(f"{name} {json.dumps(item.get('value'))}")
    return [f"{origin:<9} {', '.join(values)}" for origin, values in groups.items()]
