"""What one forward computes, as tensors: rows of several sequences side by side."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class PrefillSpan:
    """Rows ``first`` to ``last`` (exclusive) are one sequence's tokens at positions ``start`` and up.

    ``blocks`` int64 holds the sequence's blocks as far as the span reaches.
    """

    first: int
    last: int
    start: int
    blocks: Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """T rows: prefill spans first, then D decode rows, one a sequence.

    ``token_ids``, ``positions`` and ``slots`` are int64 [T]; a slot is block * block size + offset, where the
    row's key and value go. ``tables`` int32 [D, most blocks] and ``lengths`` int32 [D] (visible positions, its own
    included) describe the decode rows. ``logit_rows`` int64 [R] are the rows whose logits are wanted; None means all.
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    prefill: tuple[PrefillSpan, ...]
    tables: Tensor
    lengths: Tensor
    logit_rows: Tensor | None

    @property
    def decode_first(self) -> int:
        """The first decode row."""
        return self.prefill[-1].last if self.prefill else 0
