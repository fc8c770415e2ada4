"""Small sums: said at once, worked out digit by digit, or that with a check and another way, as the effort says."""

from __future__ import annotations

import re

from isotherm.bench.skills.item import Answer, Item, Mode, user
from isotherm.bench.skills.source import Source, split_of

NAME = "sums"
PLACES = ("Units", "Tens", "Hundreds")
PLAIN = (
    ("What is ", "Compute ", "Work out ", "How much is ", "Find "),
    ("{a} {o} {b}", "{a} {w} {b}"),
    ("?", ", please."),
)
STORIES = {
    "+": (
        ("{n} has {a} ", "{n} owns {a} ", "In the morning {n} had {a} "),
        ("{t} and gets {b} more. ", "{t}. Then {b} more arrive. "),
        ("How many {t} are there now?", "How many {t} is that?"),
    ),
    "-": (
        ("{n} has {a} ", "{n} owns {a} ", "In the morning {n} had {a} "),
        ("{t} and gives {b} away. ", "{t}. Then {b} are lost. "),
        ("How many {t} are left?", "How many {t} remain?"),
    ),
}
THINGS = ("apples", "coins", "books", "stamps", "cups", "keys", "pens", "shells")
WORDS = {"+": "plus", "-": "minus"}


def make(source: Source, mode: Mode, size: float) -> Item:
    """Two digits at most where nothing is worked out, three with higher effort and ``size``."""
    high = 999 if mode in (Mode.HIGH, Mode.MAX) and source.chance(0.5 * size) else 99
    operator, a, b = _pair(source, high)
    if source.chance(0.6):
        task = source.template(*PLAIN).format(a=a, b=b, o=operator, w=WORDS[operator])
    else:
        form = source.template(*STORIES[operator])
        task = form.format(a=a, b=b, n=source.name(), t=source.pick(THINGS))
    result = a + b if operator == "+" else a - b
    content = f"{a} {operator} {b} = {result}."
    return Item(NAME, [user(task)], mode, Answer(content, _reasoning(mode, operator, a, b)), {"result": result})


def _pair(source: Source, high: int) -> tuple[str, int, int]:
    """An operator and two numbers that belong to the split; a difference is never below zero."""
    while True:
        operator = source.pick("+-")
        a, b = source.number(2, high), source.number(2, high)
        a, b = (max(a, b), min(a, b)) if operator == "-" else (a, b)
        if split_of(f"{a}{operator}{b}") is source.split:
            return operator, a, b


def _reasoning(mode: Mode, operator: str, a: int, b: int) -> str:
    result = a + b if operator == "+" else a - b
    if mode is Mode.OFF:
        return ""
    if mode is Mode.LOW:
        return f"{a} {operator} {b} gives {result}."
    digits = _add(a, b) if operator == "+" else _subtract(a, b)
    text = f"I go digit by digit. {digits}"
    if mode is Mode.HIGH:
        return text
    back = _subtract(result, b) if operator == "+" else _add(result, b)
    inverse = f"{result} - {b}" if operator == "+" else f"{result} + {b}"
    return f"{text}\nCheck with {inverse}. {back}\n{_other_way(operator, a, b)} Both ways give {result}."


def _add(a: int, b: int) -> str:
    parts, carry, rest = [], 0, (a, b)
    for place in PLACES[: max(len(str(a)), len(str(b)))]:
        x, y = rest[0] % 10, rest[1] % 10
        total = x + y + carry
        sum_text = f"{x} + {y}" + (f" + {carry}" if carry else "")
        carry = total // 10
        parts.append(f"{place}: {sum_text} = {total}, write {total % 10}" + (f", carry {carry}." if carry else "."))
        rest = rest[0] // 10, rest[1] // 10
    if carry:
        parts.append(f"Write {carry}.")
    return " ".join([*parts, f"So {a + b}."])


def _subtract(a: int, b: int) -> str:
    parts, borrow, rest = [], 0, (a, b)
    for place in PLACES[: len(str(a))]:
        x, y = rest[0] % 10, rest[1] % 10
        difference = x - y - borrow
        text = f"{x} - {y}" + (f" - {borrow}" if borrow else "")
        borrow = int(difference < 0)
        difference %= 10
        parts.append(f"{place}: {text}" + (f", borrow, write {difference}." if borrow else f" = {difference}."))
        rest = rest[0] // 10, rest[1] // 10
    return " ".join([*parts, f"So {a - b}."])


def _other_way(operator: str, a: int, b: int) -> str:
    """In parts: hundreds and tens of the second number first, then its units."""
    tens, units = b // 10 * 10, b % 10
    sign = 1 if operator == "+" else -1
    between = a + sign * tens
    return f"Another way: {a} {operator} {tens} = {between}, {between} {operator} {units} = {between + sign * units}."


def right(item: Item, answer: Answer) -> bool:
    """The last number said is the result."""
    numbers = re.findall(r"-?\d+", re.sub(r"(?<=\d),(?=\d{3})", "", answer.content))
    return not answer.calls and bool(numbers) and int(numbers[-1]) == item.facts["result"]
