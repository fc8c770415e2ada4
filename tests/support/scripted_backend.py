"""A backend that stands for the engine: it plays scripts, so that a test decides every delta and its moment.

One token is one byte of UTF-8, with the byte as its id; 256 ends a text. A script is a function from a
turn to steps: a ``Delta`` is given out, a number is slept, an event is awaited, an exception is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from isotherm.base.backend import Backend, Capability, Generation, Loaded, ModelInfo, unwatched
from isotherm.base.errors import RequestError
from isotherm.base.outcome import Channel, Delta, Finish, FinishReason, TokenLogprob, TopLogprob, Usage
from isotherm.base.request import ChatPrompt, Prompt, TextPrompt, Turn
from isotherm.base.stats import Stats
from isotherm.policy.limits import prompt_too_long

END = 256
Step = Delta | float | asyncio.Event | Exception
Script = Callable[[Turn], Iterable[Step]]


def logprob_entry(data: bytes, rivals: int, token_id: int | None = None) -> TokenLogprob:
    """A token with ``rivals`` made-up rivals."""
    top = tuple(TopLogprob(place, -1.0 - place, bytes([65 + place])) for place in range(rivals))
    return TokenLogprob(data[0] if token_id is None else token_id, -0.5, data, top)


def piece(turn: Turn, text: str, channel: Channel = Channel.CONTENT) -> Delta:
    """A delta of ``text``, one token a byte, with log-probabilities when the turn wants them."""
    raw = text.encode()
    rivals = turn.sampling.logprobs
    entries = () if rivals is None else tuple(logprob_entry(bytes([byte]), rivals) for byte in raw)
    return Delta(text, tuple(raw), channel, entries)


def say(*pieces: str, finish: FinishReason = FinishReason.STOP, pause: float = 0.0) -> Script:
    """Plays ``pieces`` of content with ``pause`` seconds before each, then ends. max_tokens counts pieces."""

    def script(turn: Turn) -> Iterable[Step]:
        given = pieces[: turn.sampling.max_tokens]
        for text in given:
            yield pause
            yield piece(turn, text)
        reason = finish if len(given) == len(pieces) else FinishReason.LENGTH
        yield Delta(finish=Finish(reason, Usage(0, len(given))))

    return script


@dataclass
class ScriptedGeneration(Generation):
    """Plays one turn's script; ``aborted`` says whether it was told to stop before its end."""

    turn: Turn
    steps: Iterable[Step]
    prompt_tokens: int
    prompt_logprobs: tuple[TokenLogprob, ...] = ()
    ended: bool = False
    aborted: bool = False
    given: int = 0
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aiter__(self) -> AsyncIterator[Delta]:
        for step in self.steps:
            if isinstance(step, Exception):
                self.ended = True
                raise step
            if isinstance(step, float):
                await asyncio.sleep(step)
            elif isinstance(step, asyncio.Event):
                await step.wait()
            else:
                self.given += 1
                yield self._with_prompt(step)

    def _with_prompt(self, delta: Delta) -> Delta:
        if delta.finish is None:
            return delta
        self.ended = True
        usage = replace(delta.finish.usage, prompt_tokens=self.prompt_tokens)
        return replace(delta, finish=replace(delta.finish, usage=usage))

    async def abort(self) -> None:
        if not self.ended:
            self.aborted = True
            self._stop.set()


class ScriptedBackend(Backend):
    """See the module. ``turns`` and ``generations`` record what was asked, ``max_queue`` bounds what runs."""

    def __init__(self, script: Script | None = None, *, max_queue: int | None = None, **info: Any) -> None:
        self.script = script or say("Hello", " world", ".")
        defaults: dict[str, Any] = {"name": "m", "max_model_len": 1000, "created": 1_700_000_000, "vocab_size": 257}
        self.info = ModelInfo(**(defaults | info))
        self.capabilities = frozenset(Capability)
        self.max_queue = max_queue
        self.generations: list[ScriptedGeneration] = []
        self.broken: str | None = None
        self.snapshot = Stats(block_size=32, blocks_total=100)

    @property
    def turns(self) -> list[Turn]:
        return [generation.turn for generation in self.generations]

    async def start(self, loaded: Loaded = unwatched) -> None:
        pass

    async def close(self) -> None:
        for generation in self.generations:
            await generation.abort()

    async def generate(self, turn: Turn) -> Generation:
        ids = await self.tokenize(turn.prompt)
        if len(ids) > self.info.max_model_len or (turn.sampling.max_tokens and len(ids) == self.info.max_model_len):
            raise prompt_too_long(len(ids), self.info.max_model_len)
        if self.max_queue is not None and self._unfinished() >= self.max_queue:
            raise RequestError(
                "The queue is full.", status=429, kind="rate_limit_error", code="queue_full", retry_after=2
            )
        generation = ScriptedGeneration(turn, self.script(turn), len(ids), self._score(ids, turn))
        self.generations.append(generation)
        return generation

    def _unfinished(self) -> int:
        return sum(not (each.ended or each.aborted) for each in self.generations)

    def _score(self, ids: Sequence[int], turn: Turn) -> tuple[TokenLogprob, ...]:
        rivals = turn.sampling.prompt_logprobs
        if rivals is None:
            return ()
        entries = [logprob_entry(bytes([token]), rivals) for token in ids]
        return (TokenLogprob(ids[0], None, entries[0].data), *entries[1:])

    async def tokenize(self, prompt: Prompt) -> list[int]:
        if isinstance(prompt, ChatPrompt):
            lines = [f"<{message['role']}>{message['content']}\n" for message in prompt.messages]
            return list(("".join(lines) + "<assistant>" * prompt.add_generation_prompt).encode())
        return list(prompt.text.encode()) if isinstance(prompt, TextPrompt) else list(prompt.ids)

    async def detokenize(self, ids: Sequence[int]) -> str:
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", "replace")

    def token_bytes(self, token_id: int) -> bytes:
        return b"<end>" if token_id == END else bytes([token_id])

    def stats(self) -> Stats:
        return self.snapshot

    def failure(self) -> str | None:
        return self.broken
