"""What the engine process is started with; plain values, no torch."""

from __future__ import annotations

from dataclasses import dataclass

from isotherm.base.block import BLOCK_SIZE

PREFILL_CHUNK = 512
"""Tokens that one step computes at most, and the grid of fixed prefill chunks; a multiple of BLOCK_SIZE."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Settings of the engine; None means: decided by the model or the machine.

    ``dtype`` is auto, float32 or bfloat16, ``kv_dtype`` those or fp8_e4m3, ``kernels`` auto or one of the stock ones of
    ``engine.latent_parts``, ``effort_texts`` auto or a table of ``base.effort``. ``max_queue`` counts those that wait
    beside the ``max_num_seqs`` that run. ``kv_memory`` is bytes, ``kv_snapshots`` a count, for models that need some.
    ``debug_integrity`` checks the block pool whenever the engine falls idle.
    """

    model: str
    dtype: str = "auto"
    kv_dtype: str = "auto"
    kernels: str = "auto"
    effort_texts: str = "auto"
    max_model_len: int | None = None
    max_num_seqs: int = 32
    max_queue: int = 1024
    kv_memory: int | None = None
    kv_snapshots: int | None = None
    threads: int | None = None
    deterministic: bool = False
    offline: bool = False
    debug_integrity: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """What a built engine can take. ``max_model_len`` and ``pool_tokens`` are tokens of prompt and answer.

    ``independent_rows``: prompts are computed to the same bits whatever shares their forward and however they are cut.
    """

    max_model_len: int
    pool_tokens: int
    max_num_seqs: int
    max_queue: int
    vocab_size: int
    deterministic: bool = False
    independent_rows: bool = False
    block_size: int = BLOCK_SIZE
    prefill_chunk: int = PREFILL_CHUNK

    @property
    def context(self) -> int:
        """Most tokens that one sequence can have."""
        return min(self.max_model_len, self.pool_tokens)
