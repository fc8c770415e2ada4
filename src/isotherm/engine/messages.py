"""What the server's side and the engine say to each other: tagged structs, encoded as msgpack.

Requests flow down (Start, Submit, Abort, Shutdown), answers flow up (Loading, then Ready or Fatal once, then one
Output a step). Fields travel by position, so both ends must be of one version; they always are, the
engine being a child of the server.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec

from isotherm.base.outcome import Finish
from isotherm.base.sampling import SamplingParams
from isotherm.base.stats import Stats
from isotherm.engine.options import EngineOptions, Limits


class TokenScore(msgspec.Struct, array_like=True, frozen=True):
    """A token's raw log-probability and its likeliest rivals as (id, log-probability)."""

    token_id: int
    logprob: float | None
    top: list[tuple[int, float]] = []


class Piece(msgspec.Struct, array_like=True, omit_defaults=True):
    """What one step adds to the answer of one sequence; same rules as ``base.outcome.Delta``.

    ``lengths`` are the characters of ``text`` that each token ends, so that a receiver who splits the text
    can split the tokens with it; characters at its end that none of them ends belong to a later token.
    """

    sequence: int
    text: str = ""
    token_ids: list[int] = []
    lengths: list[int] = []
    scores: list[TokenScore] = []
    prompt_scores: list[TokenScore] = []
    finish: Finish | None = None


class Start(msgspec.Struct, tag=True, array_like=True):
    options: EngineOptions


class Submit(msgspec.Struct, tag=True, array_like=True):
    """One sequence to generate; ``sequence`` is the sender's number for it, never used twice."""

    sequence: int
    tokens: list[int]
    sampling: SamplingParams
    choice: int = 0
    stop_after: str | None = None
    """Stop strings count only behind the first occurrence of this text (the end of reasoning)."""
    stop_after_if: str | None = None
    """... and this condition holds only for an answer that begins with this text (the start of reasoning)."""
    sent: float = msgspec.field(default_factory=time.monotonic)
    """The sender's monotonic clock, which is the receiver's too: the engine may be in a long step when this comes."""


class Abort(msgspec.Struct, tag=True, array_like=True):
    sequences: list[int]


class Shutdown(msgspec.Struct, tag=True, array_like=True):
    pass


class Ready(msgspec.Struct, tag=True, array_like=True):
    """The model is loaded. ``details`` is for people: dtype, kernels, memory, blocks."""

    limits: Limits
    details: dict[str, Any]


class Loading(msgspec.Struct, tag=True, array_like=True):
    """So many of the model's layers are loaded."""

    done: int
    total: int


class Fatal(msgspec.Struct, tag=True, array_like=True):
    """The engine cannot start or go on; ``setup`` when the cause is the user's to mend."""

    message: str
    setup: bool = False


class Output(msgspec.Struct, tag=True, array_like=True):
    pieces: list[Piece]
    stats: Stats


Request = Start | Submit | Abort | Shutdown
Answer = Loading | Ready | Fatal | Output
