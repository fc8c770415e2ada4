"""A conversation of some turns: what the user said before is still known."""

from __future__ import annotations

import re
from typing import Any

from isotherm.bench.skills.item import Answer, Item, Mode, assistant, thoughts, user
from isotherm.bench.skills.source import Source

NAME = "memory"
THINGS = ("dog", "cat", "boat", "street", "friend", "teacher", "horse", "school", "village", "sister")
STATEMENTS = (("My {t}", "The name of my {t}", "By the way, my {t}"), (" is {n}", " is called {n}"), (".", "!"))
QUESTIONS = (
    ("What is ", "Tell me ", "Do you remember ", "Please repeat "),
    ("the name of my {t}", "my {t}'s name"),
    ("?", ", please."),
)


def make(source: Source, mode: Mode, size: float) -> Item:
    """One to four statements, each confirmed; the last turn is a statement or a question about any of them."""
    things = source.some(THINGS, source.number(1, 2 + round(2 * size)))
    names = source.names(len(things))
    messages: list[dict[str, Any]] = []
    for thing, name in zip(things, names, strict=True):
        messages += [user(source.template(*STATEMENTS).format(t=thing, n=name)), assistant(_confirm(thing, name))]
    if source.chance(0.25):
        thing, name = things[-1], names[-1]
        messages, content = messages[:-1], _confirm(thing, name)
        step = f"The user says that the {thing} is {name}."
    else:
        chosen = source.number(0, len(things) - 1)
        thing, name = things[chosen], names[chosen]
        messages.append(user(source.template(*QUESTIONS).format(t=thing)))
        content = f"Your {thing} is called {name}."
        step = f"The user said that the {thing} is {name}."
    reasoning = thoughts(mode, step, f"This is about the {thing}.", "Nothing later changed it.")
    facts = {"name": name, "others": [other for other in names if other != name]}
    return Item(NAME, messages, mode, Answer(content, reasoning), facts)


def _confirm(thing: str, name: str) -> str:
    return f"Noted: your {thing} is {name}."


def right(item: Item, answer: Answer) -> bool:
    """The name that was asked for, and none of the others."""
    said = set(re.findall(r"\w+", answer.content))
    return not answer.calls and item.facts["name"] in said and not said & set(item.facts["others"])
