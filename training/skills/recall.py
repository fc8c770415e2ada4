"""Recall: facts about names lie somewhere in a text of up to some thousands of tokens, and one of them is asked for."""

from __future__ import annotations

import re

from training.skills.filler import sentence
from training.skills.item import Answer, Item, Mode, thoughts, user
from training.skills.source import Source

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
    names, attributes = source.names(source.number(2, 4)), source.some(ATTRIBUTES, 2)
    pairs = [(name, attributes[0]) for name in names] + [(names[0], attributes[1])]
    values = source.some(range(100, 10_000), len(pairs))
    form = source.template(*FACTS)
    lines = [form.format(a=what, n=name, v=value) for (name, what), value in zip(pairs, values, strict=True)]
    text = [sentence(source) for _ in range(count)]
    for line in lines:
        text.insert(source.number(0, len(text)), line)
    chosen = source.number(0, len(pairs) - 1)
    (name, what), value = pairs[chosen], values[chosen]
    question = source.template(*QUESTIONS).format(a=what, n=name)
    answer = f"The {what} of {name} is {value}."
    reasoning = thoughts(
        mode,
        f"The text says: {lines[chosen].split(': ', 1)[1]}",
        f"I look for {name} and the {what}.",
        f"Other lines have other names or other things, so {value} is right.",
    )
    facts = {"value": str(value), "others": [str(other) for other in values if other != value]}
    messages = [user(" ".join(text) + "\n\n" + question)]
    return Item(NAME, messages, mode, Answer(answer, reasoning), facts)


def right(item: Item, answer: Answer) -> bool:
    """The value asked for, and none of the others that the text has."""
    numbers = set(re.findall(r"\d+", answer.content.replace(",", "")))
    return not answer.calls and item.facts["value"] in numbers and not numbers & set(item.facts["others"])
