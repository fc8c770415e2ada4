"""What a backend gives back while it generates and when it ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Channel(StrEnum):
    """Which part of the answer a piece of text belongs to."""

    CONTENT = "content"
    REASONING = "reasoning"
    CALLS = "tool_calls"


class FinishReason(StrEnum):
    """Why a sequence ended. Only ``stop``, ``length`` and ``tool_calls`` reach a client as a finish_reason."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    ABORT = "abort"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class TopLogprob:
    """One candidate: id, log-probability (natural log, after no penalty or temperature), raw bytes."""

    token_id: int
    logprob: float
    data: bytes


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """The log-probability of a token that was sampled (or stood in the prompt) and its rivals.

    ``logprob`` is None only for the first prompt token, which nothing predicts.
    """

    token_id: int
    logprob: float | None
    data: bytes
    top: tuple[TopLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one sequence. ``cached_tokens`` of the prompt came from the prefix cache."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a sequence. ``matched`` is the stop string or stop token id that ended it.

    ``unterminated``: the model ended by itself inside its thinking, whose text then came again as content.
    ``unfinished_call``: the markup of a call that the end cut off; pieces of it may have been given out.
    ``text_after_calls``: what the model wrote behind its calls, which is no part of the answer.
    ``queue_seconds``: how long it waited before anything of it was computed; None when that never began, or
    when nobody can tell.
    """

    reason: FinishReason
    usage: Usage
    matched: str | int | None = None
    error: str | None = None
    unterminated: bool = False
    unfinished_call: str = ""
    text_after_calls: str = ""
    queue_seconds: float | None = None

    @property
    def starved(self) -> bool:
        """Thinking used up all the tokens: nothing was left for an answer."""
        spent = self.usage.completion_tokens
        return self.reason is FinishReason.LENGTH and 0 < spent <= self.usage.reasoning_tokens


@dataclass(frozen=True, slots=True)
class CallPiece:
    """A piece of a function call. The first one of a call has ``id`` and ``name``, the last one is ``done``.

    ``arguments`` is JSON text: valid only when all pieces of a call that was done are joined.
    """

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    done: bool = False


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of answer. ``token_ids`` are the tokens whose text is in ``text`` (or was dropped as a stop).

    ``logprobs`` has one entry for each of ``token_ids`` when they were asked for. Text is always whole
    characters; a token whose bytes end inside a character is held back until the character is complete.
    Channel ``tool_calls`` has ``calls`` in place of text.
    """

    text: str = ""
    token_ids: tuple[int, ...] = ()
    channel: Channel = Channel.CONTENT
    logprobs: tuple[TokenLogprob, ...] = ()
    finish: Finish | None = None
    calls: tuple[CallPiece, ...] = ()
