"""What a model brings to an engine: something that computes, and the cache that it computes over."""

from __future__ import annotations

from dataclasses import dataclass

from isotherm.cache.manager import BlockManager
from isotherm.cache.slots import SlotManager
from isotherm.engine.loop import Runner


@dataclass(frozen=True, slots=True)
class Parts:
    """``details`` are for people; ``independent_rows`` as in ``options.Limits``."""

    runner: Runner
    blocks: BlockManager
    slots: SlotManager | None
    vocab_size: int
    independent_rows: bool
    details: dict[str, object]
