"""How much a DeepSeek-V4 is told to think: what each effort word puts in front of the system text, by table.

The makers changed the words' meaning between checkpoints: the text that the preview of April knew as ``max`` is
``high`` since the refresh of 31 July, and ``max`` has a longer one. A checkpoint was trained with one of the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Effect(StrEnum):
    """What a word does to the prompt; the value is how people are told."""

    OFF = "thinking off"
    NO_TEXT = "thinking, no text"
    MAXIMUM = "thinking, the text 'Absolute maximum'"
    BEYOND = "thinking, the text 'Beyond maximum'"


APRIL, JULY = "april", "0731"
DEFAULT_WORD = "high"
"""What a request without a word means, in both tables."""

TABLES: Mapping[str, Mapping[str, Effect]] = MappingProxyType(
    {
        APRIL: MappingProxyType(
            {
                "none": Effect.OFF,
                "minimal": Effect.NO_TEXT,
                "low": Effect.NO_TEXT,
                "medium": Effect.NO_TEXT,
                "high": Effect.NO_TEXT,
                "xhigh": Effect.NO_TEXT,
                "max": Effect.MAXIMUM,
                "ultra": Effect.MAXIMUM,
            }
        ),
        JULY: MappingProxyType(
            {
                "none": Effect.OFF,
                "minimal": Effect.NO_TEXT,
                "low": Effect.NO_TEXT,
                "medium": Effect.MAXIMUM,
                "high": Effect.MAXIMUM,
                "xhigh": Effect.MAXIMUM,
                "max": Effect.BEYOND,
                "ultra": Effect.BEYOND,
            }
        ),
    }
)
"""Both know the same words, so that a client need not know which checkpoint is served."""


@dataclass(frozen=True, slots=True)
class EffortTexts:
    """The table that a model is served with, and ``reason``, in words: what decided it."""

    table: str
    reason: str

    @property
    def words(self) -> Mapping[str, Effect]:
        return TABLES[self.table]

    def __str__(self) -> str:
        return f"{self.table} ({self.reason})"
