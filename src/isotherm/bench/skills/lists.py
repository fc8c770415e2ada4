"""Short lists: copied, turned round, sorted, counted."""

from __future__ import annotations

import re

from isotherm.bench.skills.item import Answer, Item, Mode, thoughts, user
from isotherm.bench.skills.source import Source

NAME = "lists"
KINDS = ("copy", "reverse", "up", "down", "count", "times")
TASKS = {
    "copy": (("Copy", "Repeat", "Write again", "Say back"), (" this list", " these items", " the list"), (": {l}",)),
    "reverse": (("Reverse", "Turn round", "Write backwards"), (" this list", " the list", " the items"), (": {l}",)),
    "up": (
        ("Sort", "Order", "Arrange"),
        (" these numbers", " the numbers"),
        (" upwards: {l}", ", smallest first: {l}"),
    ),
    "down": (
        ("Sort", "Order", "Arrange"),
        (" these numbers", " the numbers"),
        (" downwards: {l}", ", largest first: {l}"),
    ),
    "count": (
        ("How many items", "How many words"),
        (" are in this list", " does the list have", " are here"),
        ("? {l}",),
    ),
    "times": (
        ("How often", "How many times"),
        (" does {w} stand", " is {w}", " do you see {w}"),
        (" in this list? {l}",),
    ),
}
NUMBER_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def make(source: Source, mode: Mode, size: float) -> Item:
    kind = source.pick(KINDS)
    longest = 3 + round(5 * size)
    count = source.number(3, longest)
    if kind in ("up", "down"):
        entries = [str(value) for value in source.some(range(10, 100), count)]
    elif kind == "times":
        few = source.names(2)
        entries = [source.pick(few) for _ in range(count)]
    else:
        entries = source.names(count)
    word = source.pick(entries)
    task = source.template(*TASKS[kind]).format(l=", ".join(entries), w=word)
    result = _result(kind, entries, word)
    content = ", ".join(result) if len(result) > 1 else result[0]
    facts = {"kind": kind, "result": result}
    return Item(NAME, [user(task)], mode, Answer(content, _reasoning(mode, kind, entries, word, result)), facts)


def _result(kind: str, entries: list[str], word: str) -> list[str]:
    if kind == "count":
        return [str(len(entries))]
    if kind == "times":
        return [str(entries.count(word))]
    if kind in ("up", "down"):
        return sorted(entries, key=int, reverse=kind == "down")
    return entries[::-1] if kind == "reverse" else entries


def _reasoning(mode: Mode, kind: str, entries: list[str], word: str, result: list[str]) -> str:
    numbered = ", ".join(f"{index} {entry}" for index, entry in enumerate(entries, 1))
    hits = [entry for entry in entries if entry == word]
    steps = {
        "copy": "I write the items in their order.",
        "reverse": f"The last item is {entries[-1]}, the first is {entries[0]}.",
        "up": f"The smallest is {result[0]}, the largest is {result[-1]}.",
        "down": f"The largest is {result[0]}, the smallest is {result[-1]}.",
        "count": f"I count: {numbered}.",
        "times": "I count: " + ", ".join(f"{index} {entry}" for index, entry in enumerate(hits, 1)) + ".",
    }
    check = f"That makes {result[0]}." if kind in ("count", "times") else f"So: {', '.join(result)}."
    return thoughts(mode, steps[kind], f"The list has: {', '.join(entries)}.", check)


def right(item: Item, answer: Answer) -> bool:
    """The same items in the right order, whatever stands between them; a count as a number or in letters."""
    result: list[str] = item.facts["result"]
    said = re.findall(r"[^\W_]+", answer.content.lower())
    if item.facts["kind"] in ("count", "times"):
        numbers = [word for word in said if word.isdigit()]
        numbers += [str(NUMBER_WORDS.index(word)) for word in said if word in NUMBER_WORDS]
        return not answer.calls and numbers == result
    return not answer.calls and said == [entry.lower() for entry in result]
