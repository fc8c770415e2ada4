"""A snapshot of an engine's counters: the engine fills it, the server exports it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Stats:
    """Gauges are of this moment; everything named ``*_total`` only grows. Times are seconds.

    Blocks: ``blocks_active`` are referenced by a sequence, ``blocks_cached`` only by the prefix
    cache (evictable); the rest of ``blocks_total`` is free. ``snapshots`` are states kept for later prompts, by models
    that need them, ``snapshots_most`` as many as there is room for.
    """

    running: int = 0
    waiting: int = 0
    blocks_total: int = 0
    blocks_active: int = 0
    blocks_cached: int = 0
    block_size: int = 0
    prompt_tokens_total: int = 0
    cached_tokens_total: int = 0
    generated_tokens_total: int = 0
    replayed_tokens_total: int = 0
    finished_total: int = 0
    aborted_total: int = 0
    preemptions_total: int = 0
    evicted_blocks_total: int = 0
    steps_total: int = 0
    busy_seconds_total: float = 0.0
    memory_bytes: int = 0
    snapshots: int = 0
    snapshots_most: int = 0
    snapshots_taken_total: int = 0
    snapshots_restored_total: int = 0
