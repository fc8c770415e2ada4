"""Tool calls: one or two, with arguments from the request; the answer to a result; no call where no tool fits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from isotherm.bench.skills.item import Answer, Call, Item, Mode, thoughts, user
from isotherm.bench.skills.source import Source

NAME = "calls"
Tool = tuple[str, str, dict[str, str], Callable[[Source], dict[str, Any]], tuple[tuple[str, ...], ...]]
"""Name, description, types of the parameters, how arguments are drawn, how a request for it is worded."""
ASK = ("", "Please ", "Can you ", "I want you to ")
END = (".", ", thanks.")

TOOLS: tuple[Tool, ...] = (
    (
        "get_weather",
        "Weather of a city",
        {"city": "string"},
        lambda source: {"city": source.name()},
        (ASK, ("tell the weather in {city}", "look up the weather of {city}"), END),
    ),
    (
        "set_timer",
        "Start a timer",
        {"minutes": "integer", "label": "string"},
        lambda source: {"minutes": source.number(2, 99), "label": source.name()},
        (ASK, ("set a timer of {minutes} minutes called {label}", "start a timer {label} for {minutes} minutes"), END),
    ),
    (
        "send_message",
        "Send a message to a person",
        {"to": "string", "text": "string"},
        lambda source: {"to": source.name(), "text": " ".join(source.names(source.number(1, 3)))},
        (ASK, ("send {to} the message {text}", "write {to} a message: {text}"), END),
    ),
    (
        "switch_light",
        "Switch a light of a room",
        {"room": "string", "on": "boolean"},
        lambda source: {"room": source.name(), "on": source.chance(0.5)},
        (ASK, ("switch the light in {room} {on}", "turn the light of {room} {on}"), END),
    ),
    (
        "find_route",
        "Route between two cities",
        {"start": "string", "end": "string"},
        lambda source: dict(zip(("start", "end"), source.names(2), strict=True)),
        (ASK, ("find a route from {start} to {end}", "show the way to {end} from {start}"), END),
    ),
    (
        "set_volume",
        "Set the volume of a speaker",
        {"speaker": "string", "level": "integer"},
        lambda source: {"speaker": source.name(), "level": source.number(0, 100)},
        (ASK, ("set the volume of {speaker} to {level}", "put speaker {speaker} at {level}"), END),
    ),
)
NONE_FITS = "None of the tools can do that."
DENIAL = re.compile(r"\b(no|not|none|cannot|can't|unable|neither|don't|isn't|sorry)\b", re.IGNORECASE)
RESULTS = ("rain", "sun", "snow", "wind", "fog", "clouds")


def make(source: Source, mode: Mode, size: float) -> Item:
    tools = source.some(TOOLS, source.number(1, 2 + round(size)))
    kind = source.random.random()
    if kind < 0.2:
        return _unfit(source, mode, tools)
    if kind < 0.35:
        return _result(source, mode, tools)
    count = 2 if kind > 0.75 else 1
    chosen = [source.pick(tools) for _ in range(count)]
    calls = [Call(tool[0], tool[3](source)) for tool in chosen]
    requests = [_request(source, tool, call) for tool, call in zip(chosen, calls, strict=True)]
    return _item(source, mode, tools, [user(" ".join(requests))], calls)


def _item(source: Source, mode: Mode, tools: list[Tool], messages: list[dict[str, Any]], calls: list[Call]) -> Item:
    names = " and ".join(call.name for call in calls)
    values = ", ".join(_spoken(value) for call in calls for value in call.arguments.values())
    reasoning = thoughts(
        mode, f"I call {names}.", f"The request asks for {names} with {values}.", "The tool is offered and it fits."
    )
    wanted = [{"name": call.name, "arguments": dict(call.arguments)} for call in calls]
    offered = [_offer(tool) for tool in source.some(tools, len(tools))]
    return Item(
        NAME,
        messages,
        mode,
        Answer("", reasoning, tuple(calls)),
        {"calls": wanted, "says": [], "denies": False},
        offered,
    )


def _unfit(source: Source, mode: Mode, tools: list[Tool]) -> Item:
    """What is asked for needs a tool that is not among those offered."""
    other = source.pick([tool for tool in TOOLS if tool not in tools])
    request = _request(source, other, Call(other[0], other[3](source)))
    names = ", ".join(tool[0] for tool in tools)
    reasoning = thoughts(
        mode, "No tool fits.", f"The tools are {names}.", "A call with another meaning would be wrong, so I say it."
    )
    facts: dict[str, Any] = {"calls": [], "says": [], "denies": True}
    return Item(NAME, [user(request)], mode, Answer(NONE_FITS, reasoning), facts, [_offer(tool) for tool in tools])


def _result(source: Source, mode: Mode, tools: list[Tool]) -> Item:
    """A call was made and its result is there; what is missing is the answer."""
    weather, call = TOOLS[0], Call(TOOLS[0][0], TOOLS[0][3](source))
    tools = tools if weather in tools else [weather, *tools[1:]]
    degrees, sky, city = source.number(2, 35), source.pick(RESULTS), call.arguments["city"]
    function = {"name": call.name, "arguments": json.dumps(dict(call.arguments))}
    thought = thoughts(mode, f"I call {call.name}.", f"The request asks for {call.name} with {city}.",
                       "The tool is offered and it fits.")  # fmt: skip
    messages = [
        user(_request(source, weather, call)),
        {
            "role": "assistant",
            "content": "",
            **({"reasoning_content": thought} if thought else {}),
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": json.dumps({"degrees": degrees, "sky": sky})},
    ]
    reasoning = thoughts(mode, f"The result says {degrees} and {sky}.", "The tool has answered.", "I pass it on.")
    content = f"In {city} it is {degrees} degrees with {sky}."
    facts = {"calls": [], "says": [city, str(degrees), sky], "denies": False}
    return Item(NAME, messages, mode, Answer(content, reasoning), facts, [_offer(tool) for tool in tools])


def _request(source: Source, tool: Tool, call: Call) -> str:
    words = {key: _spoken(value) for key, value in call.arguments.items()}
    text = source.template(*tool[4]).format(**words)
    return text[0].upper() + text[1:]


def _spoken(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _offer(tool: Tool) -> dict[str, Any]:
    name, description, types, _, _ = tool
    properties = {key: {"type": kind} for key, kind in types.items()}
    parameters = {"type": "object", "properties": properties, "required": list(types)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def right(item: Item, answer: Answer) -> bool:
    """Exactly the calls that were asked for, in any order; else none, and what the result says or that nothing fits."""
    calls = [_key(call.name, call.arguments) for call in answer.calls]
    wanted = [_key(call["name"], call["arguments"]) for call in item.facts["calls"]]
    if sorted(calls) != sorted(wanted):
        return False
    if item.facts["denies"]:
        return DENIAL.search(answer.content) is not None
    return all(word in answer.content for word in item.facts["says"])


def _key(name: str, arguments: Any) -> str:
    return json.dumps([name, arguments], sort_keys=True, ensure_ascii=False)
