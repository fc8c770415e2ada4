"""Who computes what in the next step: first come, first served, as many together as fit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from isotherm.cache.manager import BlockManager
from isotherm.cache.slots import SlotManager
from isotherm.engine.options import Limits
from isotherm.engine.plan import Plan, Segment
from isotherm.engine.sequence import Sequence
from isotherm.engine.snapshots import EVERY_BLOCKS, Snapshots

PROMPT_LOGITS_CHUNK = 128
"""Prefill tokens a step when each needs a row of logits, which bounds their memory."""


class Scheduler:
    """Continuous batching with chunked prefill, prefix reuse and preemption.

    Where the model keeps something of fixed size for each sequence, ``slots`` has its places: a prefix hit then ends at
    a snapshot of it, and forwards end where ``Snapshots`` wants one.

    Both queues are ordered by arrival, and everything waiting arrived after everything running
    except for sequences that were preempted. When blocks run out the latest arrival gives up its
    blocks and waits at the front of the queue, so the oldest sequence always advances.

    In deterministic mode prompts and decode rows have forwards of their own, and after a preemption answer tokens are
    replayed one a step instead of being prefilled. Unless the kernels compute rows independently, the shape of every
    prefill forward must then depend on its sequence alone: a chunk is a forward of its own on a fixed grid, prefix
    hits end on that grid, and only whole chunks are shared.
    """

    def __init__(self, blocks: BlockManager, limits: Limits, slots: SlotManager | None = None) -> None:
        self.blocks = blocks
        self._slots = slots
        self.limits = limits
        self.waiting: OrderedDict[int, Sequence] = OrderedDict()
        self.running: OrderedDict[int, Sequence] = OrderedDict()
        self.preemptions = 0
        self.replayed_tokens = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self._arrivals = 0
        self._fixed_chunks = limits.deterministic and not limits.independent_rows
        self._unit = limits.prefill_chunk if self._fixed_chunks else limits.block_size
        """Prefixes are shared in multiples of this many tokens."""
        self._snapshots = None if slots is None else Snapshots(slots, self._unit, EVERY_BLOCKS * limits.block_size)

    def add(self, sequence: Sequence) -> None:
        sequence.arrival = self._arrivals
        self._arrivals += 1
        self.waiting[sequence.id] = sequence

    def remove(self, sequence: Sequence) -> None:
        """Forget a sequence that ended or was aborted; its blocks are free at once."""
        self.waiting.pop(sequence.id, None)
        self.running.pop(sequence.id, None)
        self._let_go(sequence)

    def schedule(self) -> Plan:
        """The next step's work; empty when nothing runs and nothing can be admitted."""
        decode = list(self._decode())
        budget = self.limits.prefill_chunk
        if self.limits.deterministic:
            # Decode rows take nothing of the budget, or no fixed chunk might ever fit.
            prefill = list(self._prefill(budget))
            forwards = [[segment] for segment in prefill] if self._fixed_chunks else [prefill]
            return Plan([forward for forward in (*forwards, decode) if forward])
        prefill = list(self._prefill(budget - len(decode)))
        return Plan([prefill + decode] if prefill or decode else [])

    def advance(self, segment: Segment) -> None:
        """A segment was computed: its KV counts, and full blocks are offered to later prompts."""
        sequence = segment.sequence
        sequence.computed += segment.length
        shareable = self._shareable(sequence)
        while sequence.shared < shareable:
            self._share_next(sequence)
        if self._snapshots is not None and sequence.computed == sequence.shared * self.limits.block_size:
            self._snapshots.passed(sequence)

    # Decoding

    def _decode(self) -> Iterator[Segment]:
        for sequence in list(self.running.values()):
            if not sequence.prefilling and sequence.id in self.running and self._grow(sequence):
                ends_context = sequence.computed + 1 == len(sequence.tokens)
                self.replayed_tokens += not ends_context
                yield Segment(sequence, sequence.computed, 1, decode=True, ends_context=ends_context)

    def _grow(self, sequence: Sequence) -> bool:
        """Make room for one more token; False if the sequence itself had to give way."""
        if sequence.computed < len(sequence.blocks) * self.limits.block_size:
            return True
        while not self.blocks.num_available:
            latest = self.running[next(reversed(self.running))]
            self._preempt(latest)
            if latest is sequence:
                return False
        sequence.blocks += self.blocks.allocate(1)
        return True

    def _preempt(self, sequence: Sequence) -> None:
        del self.running[sequence.id]
        self._let_go(sequence)
        sequence.computed = sequence.shared = 0
        sequence.cursor = sequence.trail = None
        self.waiting[sequence.id] = sequence
        self.waiting.move_to_end(sequence.id, last=False)
        self.preemptions += 1

    def _let_go(self, sequence: Sequence) -> None:
        self.blocks.release(sequence.blocks)
        sequence.blocks = []
        if self._slots is not None and sequence.slot is not None:
            self._slots.release(sequence.slot)
            sequence.slot = None

    # Prefill

    def _prefill(self, budget: int) -> Iterator[Segment]:
        """Chunks of at most ``budget`` tokens, for running sequences first, then for admitted ones."""
        for sequence in self._prefill_candidates():
            length = self._chunk_length(sequence, budget)
            if not length:
                return
            budget -= length
            end = sequence.computed + length
            yield Segment(
                sequence,
                sequence.computed,
                length,
                decode=False,
                ends_context=end == len(sequence.tokens),
                all_logits=sequence.wants_prompt_logits,
            )
            if budget <= 0:
                return

    def _prefill_candidates(self) -> Iterator[Sequence]:
        yield from [sequence for sequence in self.running.values() if sequence.prefilling]
        while self.waiting and len(self.running) < self.limits.max_num_seqs:
            sequence = next(iter(self.waiting.values()))
            if not self._admit(sequence):
                return
            yield sequence

    def _chunk_length(self, sequence: Sequence, budget: int) -> int:
        left = sequence.prefill_end - sequence.computed
        if self._fixed_chunks:
            chunk = self.limits.prefill_chunk
            length = min(left, chunk - sequence.computed % chunk)
            return length if length <= budget else 0
        if sequence.wants_prompt_logits:
            left = min(left, PROMPT_LOGITS_CHUNK)
        return self._up_to_a_snapshot(sequence, min(left, budget))

    def _up_to_a_snapshot(self, sequence: Sequence, length: int) -> int:
        """``length``, or as much of it as ends where a snapshot is wanted."""
        place = None if self._snapshots is None else self._snapshots.next_place(sequence, sequence.computed)
        return length if place is None else min(length, place - sequence.computed)

    def _admit(self, sequence: Sequence) -> bool:
        """Move the head of the queue to the running ones if all its known tokens find room."""
        # A known prefix may cover everything but the last token, whose logits are needed.
        reusable = 0 if sequence.wants_prompt_logits else self._prefill_target(sequence) - 1
        path = self.blocks.acquire_prefix(
            sequence.tokens, reusable // self.limits.block_size, self._unit // self.limits.block_size
        )
        sequence.branch = len(path) * self.limits.block_size
        if self._slots is not None:
            usable = self._slots.usable(path)
            self.blocks.release([node.block for node in path[usable:]])
            del path[usable:]
        hit = len(path) * self.limits.block_size
        needed = self.blocks.blocks_for(len(sequence.tokens)) - len(path)
        # A block in reserve for each running sequence, or the newcomer would soon be preempted again.
        reserve = len(self.running)
        if needed + reserve > self.blocks.num_available or self._being_computed(sequence, hit, reusable):
            self.blocks.release([node.block for node in path])
            return False
        sequence.blocks = [node.block for node in path] + self.blocks.allocate(needed)
        sequence.computed = hit
        sequence.shared = len(path)
        sequence.cursor = path[-1] if path else None
        if self._slots is not None:
            sequence.slot = self._slots.take()
            if path:
                self._slots.restore(path[-1], sequence.slot)
        sequence.prefill_end = self._prefill_target(sequence)
        if sequence.cached_tokens is None:
            sequence.cached_tokens = hit
            self.prompt_tokens += sequence.prompt_length
            self.cached_tokens += hit
        del self.waiting[sequence.id]
        self.running[sequence.id] = sequence
        return True

    def _prefill_target(self, sequence: Sequence) -> int:
        return sequence.prompt_length if self.limits.deterministic else len(sequence.tokens)

    def _being_computed(self, sequence: Sequence, hit: int, reusable: int) -> bool:
        """Whether a running prefill is about to share the very next part of this prompt: wait for it."""
        for other in self.running.values():
            end = self._next_shared(other, hit) if other.prefilling else None
            if end is not None and end <= reusable and other.tokens[:end] == sequence.tokens[:end]:
                return True
        return False

    def _next_shared(self, prefilling: Sequence, hit: int) -> int | None:
        """Where behind ``hit`` tokens a prompt that is being computed can be reused next; None if that is known."""
        if self._snapshots is not None:
            return self._snapshots.next_place(prefilling, max(prefilling.computed, hit))
        end = hit + self._unit
        return end if prefilling.computed < end <= prefilling.prefill_end else None

    # Sharing

    def _shareable(self, sequence: Sequence) -> int:
        """How many leading blocks hold KV that later prompts may reuse."""
        if not self.limits.deterministic:
            return sequence.computed // self.limits.block_size
        whole_units = min(sequence.computed, sequence.prompt_length) // self._unit
        return whole_units * (self._unit // self.limits.block_size)

    def _share_next(self, sequence: Sequence) -> None:
        index, size = sequence.shared, self.limits.block_size
        key = tuple(sequence.tokens[index * size : (index + 1) * size])
        sequence.cursor = self.blocks.share(sequence.cursor, key, sequence.blocks[index])
        sequence.blocks[index] = sequence.cursor.block
        sequence.shared = index + 1
