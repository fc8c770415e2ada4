"""What the scheduler hands to the runner for one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isotherm.engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive tokens of one sequence that a forward computes: positions [start, start + length).

    ``all_logits`` asks for a logits row for every token (prompt logprobs); otherwise the last token
    alone gets one, and only when ``ends_context``: no known token of the sequence lies beyond it.
    A decode row is a segment with length 1 that is not part of a prefill chunk (``decode``).
    """

    sequence: Sequence
    start: int
    length: int
    decode: bool
    ends_context: bool
    all_logits: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Forwards of one step, in order; each is a list of segments that share it, prefill before decode."""

    forwards: list[list[Segment]]
