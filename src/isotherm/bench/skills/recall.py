"""Recall: facts about names lie somewhere in a text of up to some thousands of tokens, and one of them is asked for."""

from __future__ import annotations

import re

from isotherm.bench.skills.filler import sentence
from isotherm.bench.skills.item import Answer, Item, Mode, assistant, thoughts, user
from isotherm.bench.skills.source import Source

NAME = "recall"
ATTRIBUTES = ("code", "room", "seat", "badge", "ticket", "locker", "desk", "gate")
FACTS = (
    ("Note: ", "Fact: ", "Remember: ", "Important: ", "Listed: "),
    ("the {a} of {n} is {v}.", "{n} has the {a} {v}.", "{n} uses {a} {v}.", "for {n} the {a} is {v}."),
)
QUESTIONS = (
    ("What is ", "Tell me ", "Please give me ", "I need ", "Look up "),
    ("the {a} of {n}", "{n}'s {a}", "the {a} that {n} has"),
    ("?", ", please."),
)
SHORTEST, LONGEST = 1, 340
"""Sentences of filler: 100 to 4,000 tokens in all."""


def make(source: Source, mode: Mode, size: float) -> Item:
    """``size`` from 0 to 1 makes the text longer, by the same factor for the same step."""
    count = round(SHORTEST * (LONGEST / SHORTEST) ** size)
    people = source.number(2, 4)
    words, attributes = source.names(2 * people + 1), source.some(ATTRIBUTES, 2)
    names, values = words[:people], words[people:]
    pairs = [(name, attributes[0]) for name in names] + [(names[0], attributes[1])]
    form = source.template(*FACTS)
    lines = [form.format(a=what, n=name, v=value) for (name, what), value in zip(pairs, values, strict=True)]
    text = [sentence(source) for _ in range(count)]
    for line in lines:
        text.insert(source.number(0, len(text)), line)
    *earlier, chosen = source.some(range(len(pairs)), source.number(1, len(pairs)) if source.chance(0.5) else 1)
    messages, start = [], " ".join(text) + "\n\n"
    for index in earlier:
        messages += [user(start + _question(source, *pairs[index])), assistant(_answer(*pairs[index], values[index]))]
        start = ""
    (name, what), value = pairs[chosen], values[chosen]
    messages.append(user(start + _question(source, name, what)))
    reasoning = thoughts(
        mode,
        f"The text says: {lines[chosen].split(': ', 1)[1]}",
        f"I look for {name} and the {what}.",
        f"Other lines have other names or other things, so {value} is right.",
    )
    facts = {"value": value, "others": [other for other in values if other != value]}
    return Item(NAME, messages, mode, Answer(_answer(name, what, value), reasoning), facts)


def _question(source: Source, name: str, what: str) -> str:
    return source.template(*QUESTIONS).format(a=what, n=name)


def _answer(name: str, what: str, value: str) -> str:
    return f"The {what} of {name} is {value}."


def right(item: Item, answer: Answer) -> bool:
    """The value asked for, and none of the others that the text has."""
    said = set(re.findall(r"\w+", answer.content))
    return not answer.calls and item.facts["value"] in said and not said & set(item.facts["others"])
