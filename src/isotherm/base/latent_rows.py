"""How many bytes a row of a DeepSeek-V4 cache takes, by precision; with its scales, without padding of pages."""

from __future__ import annotations

PRECISIONS = {"fp8_e4m3": 1, "bfloat16": 2, "float32": 4}
"""Bytes of a number, by the names of ``--kv-dtype``."""
GROUP = 64
"""Numbers that share a scale in the packed record."""


def latent_row_bytes(precision: str, width: int, rotated: int) -> int:
    """A row that attention reads. Packed, the rotated part stays bfloat16 and scales are filled up to eight bytes."""
    if precision != "fp8_e4m3":
        return width * PRECISIONS[precision]
    plain = width - rotated
    return plain + 2 * rotated + -(-plain // GROUP // 8) * 8


def index_row_bytes(precision: str, width: int) -> int:
    """A key of the indexer: numbers, and with eight bits one float32 scale."""
    return width * PRECISIONS[precision] + (4 if precision == "fp8_e4m3" else 0)
