"""The contract between the server and whoever generates: embedded engine now, upstream engines later."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from isotherm.base.effort import EffortTexts
from isotherm.base.outcome import Delta, TokenLogprob
from isotherm.base.request import Prompt, Turn
from isotherm.base.stats import Stats

Loaded = Callable[[int, int], None]
"""Called while a model is loaded, with layers done and layers in all."""


def unwatched(done: int, total: int) -> None:
    """Tells nobody."""


class Capability(StrEnum):
    """What a backend can honour; a request that needs another one is refused with 400."""

    LOGPROBS = "logprobs"
    PROMPT_LOGPROBS = "prompt_logprobs"
    SEED = "seed"
    TOKENIZE = "tokenize"


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The served model, as shown to clients and to the policy.

    ``generation_config`` holds the sampling values that the model's publisher recommends, only keys
    that are present there. ``details`` is free-form text for people (dtype, kernels, memory, blocks).
    ``effort_texts`` is what effort words mean, for models that know some. ``call_format`` names the form in
    which the model calls functions; None where calls are not told from text.
    """

    name: str
    max_model_len: int
    created: int
    vocab_size: int
    generation_config: Mapping[str, Any] = field(default_factory=dict)
    has_chat_template: bool = True
    details: Mapping[str, Any] = field(default_factory=dict)
    effort_texts: EffortTexts | None = None
    call_format: str | None = None


class Generation(ABC):
    """One running sequence: an async iterator of deltas, the last of which carries ``finish``.

    It raises EngineDied if the backend is lost. Leaving the iteration early does not stop the
    sequence: call ``abort`` (idempotent, allowed at any time, also after the end).
    """

    prompt_tokens: int
    """Length of the encoded prompt."""

    prompt_logprobs: tuple[TokenLogprob, ...] = ()
    """Filled before the first delta when the turn asked for them."""

    @abstractmethod
    def __aiter__(self) -> AsyncIterator[Delta]: ...

    @abstractmethod
    async def abort(self) -> None: ...


class Backend(ABC):
    """Generates. Implementations: ``backends.embedded`` (our engine in a child process)."""

    info: ModelInfo
    capabilities: frozenset[Capability]

    @abstractmethod
    async def start(self, loaded: Loaded = unwatched) -> None:
        """Ready to generate when this returns; raises SetupError with the cause otherwise."""

    @abstractmethod
    async def close(self) -> None:
        """Abort what runs and leave no process behind. Idempotent."""

    @abstractmethod
    async def generate(self, turn: Turn) -> Generation:
        """Encode, validate and queue a turn.

        Raises RequestError (prompt too long, queue full, bad token id) before anything is generated.
        """

    @abstractmethod
    async def tokenize(self, prompt: Prompt) -> list[int]:
        """Token ids of a prompt, exactly those that ``generate`` would use."""

    @abstractmethod
    async def detokenize(self, ids: Sequence[int]) -> str: ...

    @abstractmethod
    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that a token stands for."""

    @abstractmethod
    def stats(self) -> Stats:
        """The latest snapshot; never blocks."""

    @abstractmethod
    def failure(self) -> str | None:
        """None while the backend works; otherwise why it no longer does, for /health/ready and the log."""
