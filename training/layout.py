"""Items as token ids, by the server's own encoder, answer included: training and serving cannot differ.

Without tools the answer is laid out as one that is left open, and its end token is put behind it. With tools the
library does not allow that, but keeps earlier reasoning: the answer is laid out as an earlier one, and what follows it
is cut off.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from isotherm.base.effort import JULY, EffortTexts
from isotherm.base.request import ChatPrompt
from isotherm.bench.skills.item import Answer, Item
from isotherm.chat.deepseek_v4 import DeepseekV4Chat
from isotherm.model.deepseek_v4.tiny_tokenizer import EOS

ASSISTANT = "<｜Assistant｜>"
EFFORTS = EffortTexts(JULY, "Nano was trained with it")
"""The newer table: three words with three effects, where April's has two."""


@dataclass(frozen=True, slots=True)
class Sample:
    """``ids`` of a whole conversation, and where in it each answer stands, from its first token to behind its end."""

    ids: list[int]
    answers: list[tuple[int, int]]


class Layout:
    """Lays items out for one tokenizer (its description as JSON text)."""

    def __init__(self, tokenizer_json: bytes) -> None:
        self._chat = DeepseekV4Chat(tokenizer_json, EFFORTS)
        added = {token["content"]: token["id"] for token in json.loads(tokenizer_json)["added_tokens"]}
        self._end: int = added[EOS]
        self._assistant: int = added[ASSISTANT]

    def prompt(self, item: Item) -> tuple[list[int], str]:
        """Ids and text of what the server gives the model."""
        return self._encode(item, list(item.messages))

    def whole(self, item: Item) -> tuple[list[int], str]:
        """The prompt and the expected answer, up to its end token."""
        if not item.tools:
            ids, text = self._encode(item, [*item.messages, message(item.expected) | {"prefix": True}])
            return [*ids, self._end], text + EOS
        # The library takes no calls without their results.
        results = [{"role": "tool", "tool_call_id": name(i), "content": ""} for i in range(len(item.expected.calls))]
        ids, text = self._encode(item, [*item.messages, message(item.expected), *results])
        return ids[: len(ids) - ids[::-1].index(self._end)], text[: text.rindex(EOS) + len(EOS)]

    def sample(self, item: Item) -> Sample:
        """Earlier answers are learned like the last: from behind ``<think>`` or ``</think>``, which prompts have."""
        ids = self.whole(item)[0]
        turns = [index for index, token in enumerate(ids) if token == self._assistant]
        return Sample(ids, [(turn + 2, ids.index(self._end, turn) + 1) for turn in turns])

    def _encode(self, item: Item, messages: list[Any]) -> tuple[list[int], str]:
        return self._chat.encode(ChatPrompt(messages, item.tools, item.mode.variables))


def message(answer: Answer) -> dict[str, Any]:
    """An answer as the assistant's message of a chat request."""
    fields: dict[str, Any] = {"role": "assistant", "content": answer.content}
    if answer.reasoning:
        fields["reasoning_content"] = answer.reasoning
    if answer.calls:
        fields["tool_calls"] = [
            {
                "id": name(index),
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments), ensure_ascii=False)},
            }
            for index, call in enumerate(answer.calls)
        ]
    return fields


def name(index: int) -> str:
    """What a call is called between it and its result; the layout shows it nowhere."""
    return f"answer_{index}"
