"""A completion's text becomes an answer: reasoning, words, calls. What is malformed stays text."""

from __future__ import annotations

import json
import re
from typing import Any

from isotherm.bench.skills.item import Answer, Call, Mode

END = "<｜end▁of▁sentence｜>"
CLOSE = "</think>"
BLOCK = re.compile(r"\n\n<｜DSML｜tool_calls>\n(.*)</｜DSML｜tool_calls>$", re.DOTALL)
INVOKE = re.compile(r'<｜DSML｜invoke name="([^"]*)">\n(.*?)</｜DSML｜invoke>\n', re.DOTALL)
PARAMETER = re.compile(
    r'<｜DSML｜parameter name="([^"]*)" string="(true|false)">(.*?)</｜DSML｜parameter>\n', re.DOTALL
)


def read(text: str, mode: Mode) -> Answer:
    """``text`` is a completion with its markers; thinking that never ends has no answer."""
    text = text.split(END, 1)[0]
    reasoning = ""
    if mode is not Mode.OFF:
        reasoning, _, text = text.partition(CLOSE)
    found = BLOCK.search(text)
    calls = _calls(found[1]) if found else None
    if found is None or calls is None:
        return Answer(text, reasoning)
    return Answer(text[: found.start()], reasoning, calls)


def _calls(block: str) -> tuple[Call, ...] | None:
    """None where something stands between the calls or a value is not JSON."""
    if INVOKE.sub("", block):
        return None
    calls = []
    for name, body in INVOKE.findall(block):
        arguments: dict[str, Any] = {}
        if PARAMETER.sub("", body):
            return None
        for key, is_text, value in PARAMETER.findall(body):
            try:
                arguments[key] = value if is_text == "true" else json.loads(value)
            except ValueError:
                return None
        calls.append(Call(name, arguments))
    return tuple(calls)
