"""JSON to a given schema: what a sentence says becomes the properties that are asked for."""

from __future__ import annotations

import json
from typing import Any

from isotherm.bench.skills.item import Answer, Item, Mode, thoughts, user
from isotherm.bench.skills.source import Source

NAME = "json"
TASKS = (
    ("Answer", "Reply", "Write this"),
    (" in JSON", " as JSON", " as one JSON object"),
    (" with this schema: {s}", " that fits this schema: {s}"),
    ("\n{t}",),
)
TYPES = {"name": "string", "city": "string", "job": "string", "age": "integer", "pets": "array", "member": "boolean"}
JOBS = ("baker", "pilot", "teacher", "farmer", "painter", "nurse", "driver", "singer")
SAID = {
    "name": "{v} is the name.",
    "city": "The city is {v}.",
    "job": "The job is {v}.",
    "age": "The age is {v}.",
    "pets": "The pets are {v}.",
}
MEMBER = {True: "This is a member.", False: "This is not a member."}


def make(source: Source, mode: Mode, size: float) -> Item:
    """The schema asks for two to five properties, in an order of its own; the text may say more than that."""
    wanted = source.some(list(TYPES), source.number(2, 2 + round(3 * size)))
    extra = [key for key in TYPES if key not in wanted and source.chance(0.3)]
    value = {key: _value(source, key) for key in (*wanted, *extra)}
    said = source.some([_sentence(key, value[key]) for key in value], len(value))
    result = {key: value[key] for key in wanted}
    schema = {"type": "object", "properties": {key: _schema(key) for key in wanted}, "required": wanted}
    text = source.template(*TASKS).format(s=json.dumps(schema), t=" ".join(said))
    reasoning = thoughts(
        mode,
        "The properties are " + ", ".join(f"{key} ({TYPES[key]})" for key in wanted) + ".",
        "The answer is JSON and nothing else.",
        "Each has the value that the text gives.",
    )
    return Item(NAME, [user(text)], mode, Answer(json.dumps(result), reasoning), {"schema": schema, "value": result})


def _value(source: Source, key: str) -> Any:
    values: dict[str, Any] = {
        "job": source.pick(JOBS),
        "age": source.number(18, 90),
        "pets": source.names(source.number(1, 3)),
        "member": source.chance(0.5),
    }
    return values[key] if key in values else source.name()


def _sentence(key: str, value: Any) -> str:
    if key == "member":
        return MEMBER[value]
    return SAID[key].format(v=", ".join(value) if isinstance(value, list) else value)


def _schema(key: str) -> dict[str, Any]:
    kind = TYPES[key]
    return {"type": kind, "items": {"type": "string"}} if kind == "array" else {"type": kind}


def right(item: Item, answer: Answer) -> bool:
    """One JSON object and nothing beside it, with exactly the values that the text gives; their order is free."""
    try:
        value = json.loads(answer.content)
    except ValueError:
        return False
    return not answer.calls and _same(value, item.facts["value"])


def _same(value: Any, wanted: Any) -> bool:
    """Equal, and of the same types: 1 is not true, 34 is not "34"."""
    if type(value) is not type(wanted):
        return False
    if isinstance(wanted, dict):
        return value.keys() == wanted.keys() and all(_same(value[key], wanted[key]) for key in wanted)
    return bool(value == wanted)
