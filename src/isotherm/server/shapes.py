"""How an answer looks on the wire, streamed and whole: chat completions and legacy completions.

Everything about a chunk that does not change is serialised once a stream; a delta costs one JSON string.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec

from isotherm.base.backend import Generation
from isotherm.base.outcome import Channel, Delta, Finish, TokenLogprob
from isotherm.server.calls import call_chunks, whole_calls
from isotherm.server.job import Job
from isotherm.server.logprobs import TextOffsets, chat_logprobs

encode = msgspec.json.encode
DONE = b"data: [DONE]\n\n"
KEEPALIVE = b": keep-alive\n\n"
_MARK = "@@"
_UNSAFE = (("\u2028", b"\\u2028"), ("\u2029", b"\\u2029"), ("\x85", b"\\u0085"))


def event(data: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + encode(data) + b"\n\n"


def json_text(text: str) -> bytes:
    """A JSON string without the characters at which careless event readers break lines (U+2028, U+2029, U+0085)."""
    data = encode(text)
    if not text.isascii():
        for char, escaped in _UNSAFE:
            data = data.replace(char.encode(), escaped)
    return data


class Shape(ABC):
    """One protocol's chunks and whole answers. A fresh one serves each request."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._templates: dict[tuple[int, Channel], tuple[bytes, bytes]] = {}
        self._opened: set[int] = set()

    object_name: str
    chunk_name: str

    @abstractmethod
    def delta(self, index: int, delta: Delta) -> bytes:
        """Events for a delta that is not the end; empty when it has nothing to show."""

    @abstractmethod
    def _choice(self, index: int, text: str, channel: Channel) -> dict[str, Any]:
        """A chunk's choice that carries ``text``, without log-probabilities or an end."""

    @abstractmethod
    def choice(self, index: int, deltas: Sequence[Delta]) -> dict[str, Any]:
        """The choice of an answer that is not streamed."""

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        job = self._job
        chunk = {
            "id": job.id,
            "object": self.chunk_name,
            "created": job.created,
            "model": job.model,
            "choices": choices,
        }
        return chunk | {"usage": None} if job.include_usage else chunk

    def _text_event(self, index: int, text: str, channel: Channel) -> bytes:
        template = self._templates.get((index, channel))
        if template is None:
            head, _, tail = event(self._chunk([self._choice(index, _MARK, channel)])).rpartition(encode(_MARK))
            template = self._templates[index, channel] = head, tail
        return template[0] + json_text(text) + template[1]

    def finish(self, index: int, finish: Finish) -> bytes:
        """The event that ends a choice."""
        choice = self._choice(index, "", Channel.CONTENT) | self.ending(finish)
        return event(self._chunk([choice]))

    def ending(self, finish: Finish) -> dict[str, Any]:
        """Why a choice ended, and the stop text or token id that did it."""
        return {"finish_reason": finish.reason.value, "stop_reason": finish.matched}

    def usage(self, usage: dict[str, Any]) -> bytes:
        """The event of ``include_usage``: no choices."""
        return event(self._chunk([]) | {"usage": usage})

    def whole(self, choices: list[dict[str, Any]], usage: dict[str, Any]) -> bytes:
        """The body of an answer that is not streamed."""
        answer = self._chunk(choices) | {"object": self.object_name, "usage": usage, "isotherm": self._job.report()}
        return encode(answer)


def joined(deltas: Sequence[Delta], channel: Channel) -> str:
    """The text of one channel."""
    return "".join(delta.text for delta in deltas if delta.channel is channel)


def entries_of(deltas: Sequence[Delta]) -> list[TokenLogprob]:
    """The log-probabilities of all channels, in order."""
    return [entry for delta in deltas for entry in delta.logprobs]


class ChatShape(Shape):
    """``chat.completion`` and its chunks. The first chunk of choice 0 carries the ``isotherm`` object."""

    object_name = "chat.completion"
    chunk_name = "chat.completion.chunk"

    def __init__(self, job: Job, *, logprobs: bool) -> None:
        super().__init__(job)
        self._logprobs = logprobs

    def _choice(self, index: int, text: str, channel: Channel) -> dict[str, Any]:
        name = "content" if channel is Channel.CONTENT else "reasoning_content"
        delta = {name: text} if text else {}
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def delta(self, index: int, delta: Delta) -> bytes:
        opening = b"" if index in self._opened else self._open(index)
        if delta.logprobs or delta.calls:
            return opening + self._structured(index, delta)
        if not delta.text:
            return opening
        return opening + self._text_event(index, delta.text, delta.channel)

    def _structured(self, index: int, delta: Delta) -> bytes:
        """A delta that is more than text."""
        choice = self._choice(index, delta.text, delta.channel)
        if delta.calls:
            choice["delta"] |= call_chunks(delta.calls)
        if delta.logprobs:
            choice["logprobs"] = chat_logprobs(delta.logprobs)
        return event(self._chunk([choice])) if choice["delta"] or delta.logprobs else b""

    def _open(self, index: int) -> bytes:
        first = not self._opened
        self._opened.add(index)
        choice = self._choice(index, "", Channel.CONTENT) | {"delta": {"role": "assistant", "content": ""}}
        chunk = self._chunk([choice])
        return event(chunk | {"isotherm": self._job.report()} if first else chunk)

    def ending(self, finish: Finish) -> dict[str, Any]:
        """Also how thinking ended, if it did not end well, and what was written that is no part of the answer."""
        end = "unterminated" if finish.unterminated else "starved" if finish.starved else None
        more = {
            "reasoning_end": end,
            "unfinished_tool_call": finish.unfinished_call,
            "text_after_tool_calls": finish.text_after_calls,
        }
        return super().ending(finish) | {name: value for name, value in more.items() if value}

    def choice(self, index: int, deltas: Sequence[Delta]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": joined(deltas, Channel.CONTENT), "refusal": None}
        calls = whole_calls(deltas)
        if calls:
            message |= {"content": message["content"] or None, "tool_calls": calls}
        repeated = any(delta.finish is not None and delta.finish.unterminated for delta in deltas)
        reasoning = joined(deltas, Channel.REASONING)
        if reasoning and not repeated:
            message["reasoning_content"] = reasoning
        logprobs = chat_logprobs(entries_of(deltas)) if self._logprobs else None
        return {"index": index, "message": message, "logprobs": logprobs}


class CompletionShape(Shape):
    """``text_completion``. With echo, each choice starts with its prompt: text and log-probabilities."""

    object_name = "text_completion"
    chunk_name = "text_completion"

    def __init__(
        self, job: Job, generations: Sequence[Generation], *, logprobs: bool, echoes: Sequence[str] | None
    ) -> None:
        """``echoes`` has the text of each prompt, if the answer shall start with it."""
        super().__init__(job)
        self._generations = generations
        self._logprobs = logprobs
        self._echoes = echoes
        self._offsets = [TextOffsets() for _ in job.turns]

    def _echo(self, index: int) -> Delta:
        """The prompt as the first piece of a choice; its log-probabilities are known by the first delta."""
        if self._echoes is None:
            return Delta()
        text = self._echoes[index // self._job.n]
        return Delta(text=text, logprobs=self._generations[index].prompt_logprobs)

    def _choice(self, index: int, text: str, channel: Channel) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": None, "finish_reason": None}

    def delta(self, index: int, delta: Delta) -> bytes:
        opening = b"" if index in self._opened else self._open(index)
        return opening + self._piece(index, delta)

    def _open(self, index: int) -> bytes:
        first = not self._opened
        self._opened.add(index)
        opening = b""
        if first:
            chunk = self._chunk([self._choice(index, "", Channel.CONTENT)])
            opening = event(chunk | {"isotherm": self._job.report()})
        return opening + self._piece(index, self._echo(index))

    def _piece(self, index: int, delta: Delta) -> bytes:
        if delta.logprobs:
            logprobs = self._offsets[index].legacy(delta.logprobs, delta.text)
            choice = self._choice(index, delta.text, delta.channel) | {"logprobs": logprobs}
            return event(self._chunk([choice]))
        return self._text_event(index, delta.text, delta.channel) if delta.text else b""

    def choice(self, index: int, deltas: Sequence[Delta]) -> dict[str, Any]:
        everything = [self._echo(index), *deltas]
        text = "".join(delta.text for delta in everything)
        logprobs = self._whole_logprobs(index, everything) if self._logprobs else None
        return {"index": index, "text": text, "logprobs": logprobs}

    def _whole_logprobs(self, index: int, deltas: Sequence[Delta]) -> dict[str, Any]:
        pieces = [self._offsets[index].legacy(delta.logprobs, delta.text) for delta in deltas]
        names = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
        return {name: [item for piece in pieces for item in piece[name]] for name in names}
