"""One sequence on its way through the engine: its tokens, its blocks, and how far it is computed."""

from __future__ import annotations

from dataclasses import dataclass, field

from isotherm.cache.prefix_tree import Node


@dataclass(slots=True, eq=False)
class Sequence:
    """What the scheduler and the runner know of a request.

    ``tokens`` is prompt and answer. The KV of ``tokens[:computed]`` lies in ``blocks``, of which the
    first ``shared`` are in the prefix cache with ``cursor`` as the deepest node. ``prefill_end`` is
    where prefill stops and decoding, one token a step, begins.

    ``blocks`` is replaced by a new list when the sequence is preempted, and an entry may be
    exchanged for an equal block when it is shared. ``slot`` is its place for what has a fixed size, where the model
    keeps such a thing; None while it does not run.
    """

    id: int
    tokens: list[int]
    arrival: int = 0
    blocks: list[int] = field(default_factory=list)
    slot: int | None = None
    computed: int = 0
    prefill_end: int = 0
    shared: int = 0
    cursor: Node | None = None
    branch: int = 0
    """Where the known part of its tokens ended when it was admitted, in tokens: there it parts from other prompts."""
    trail: Node | None = None
    """Where its state was kept in passing; see ``snapshots``."""
    prompt_length: int = field(init=False)
    cached_tokens: int | None = None
    """Prompt tokens found in the prefix cache at first admission; None before it."""
    wants_prompt_logits: bool = False
    """Logits of every prompt token are needed: no prefix hit, and prefill gives a row for each."""

    def __post_init__(self) -> None:
        self.prompt_length = len(self.tokens)

    @property
    def prefilling(self) -> bool:
        return self.computed < self.prefill_end

    @property
    def num_generated(self) -> int:
        return len(self.tokens) - self.prompt_length
