"""Instructions of the system message: quotation marks, a last word, a first word, one of two languages."""

from __future__ import annotations

import re
from typing import Any

from isotherm.bench.skills.item import Answer, Item, Mode, system, thoughts, user
from isotherm.bench.skills.source import Source

NAME = "manners"
KINDS = ("quoted", "ending", "beginning", "german", "english")
RULES = {
    "quoted": (("Always answer ", "Write ", "Reply "), ("in quotation marks", "between quotation marks"), (".", "!")),
    "ending": (("End ", "Finish ", "Close "), ("every answer", "each reply"), (" with the word {w}.", " with {w}.")),
    "beginning": (("Begin ", "Start ", "Open "), ("every answer", "each reply"), (" with the word {w}.", " with {w}.")),
    "german": (("Always answer ", "Write ", "Reply "), ("in German", "in the German language"), (".", "!")),
    "english": (("Always answer ", "Write ", "Reply "), ("in English", "in the English language"), (".", "!")),
}
PHRASES = {
    "hello": ("Hello {n}", "Hallo {n}"),
    "good morning": ("Good morning {n}", "Guten Morgen {n}"),
    "good night": ("Good night {n}", "Gute Nacht {n}"),
    "thank you": ("Thank you {n}", "Danke {n}"),
    "welcome": ("Welcome {n}", "Willkommen {n}"),
    "goodbye": ("Goodbye {n}", "Auf Wiedersehen {n}"),
    "good luck": ("Good luck {n}", "Viel Glück {n}"),
}
REQUESTS = (("Say ", "Please say ", "Write "), ("{p} to {n}",), (".", "!", ", please."))


def make(source: Source, mode: Mode, size: float) -> Item:
    """``size`` changes nothing: they are all short."""
    del size
    kind, (name, word) = source.pick(KINDS), source.names(2)
    asked = source.pick(list(PHRASES))
    english, german = (text.format(n=name) for text in PHRASES[asked])
    rule = source.template(*RULES[kind]).format(w=word)
    request = source.template(*REQUESTS).format(p=asked, n=name)
    plain = german if kind == "german" else english
    content = {
        "quoted": f'"{english}."',
        "ending": f"{english}, {word}.",
        "beginning": f"{word}, {english}.",
    }.get(kind, f"{plain}.")
    reasoning = thoughts(
        mode, f"The rule: {rule}", f"The request is {asked} to {name}.", f"With the rule it is: {content}"
    )
    facts: dict[str, Any] = {"kind": kind, "word": word, "phrase": plain}
    return Item(NAME, [system(rule), user(request)], mode, Answer(content, reasoning), facts)


def right(item: Item, answer: Answer) -> bool:
    """What was asked for is said, in the way that the rule wants."""
    kind, word, phrase = (item.facts[key] for key in ("kind", "word", "phrase"))
    said = re.findall(r"\w+", answer.content)
    lower = [text.lower() for text in said]
    wanted = phrase.lower().split()
    if answer.calls or not any(lower[i : i + len(wanted)] == wanted for i in range(len(lower))):
        return False
    if kind == "quoted":
        return re.fullmatch(r'\s*(".*"|“.*”|„.*“)[.!]?\s*', answer.content, re.DOTALL) is not None
    if kind in ("ending", "beginning"):
        return bool(lower[-1 if kind == "ending" else 0] == word.lower())
    return True
