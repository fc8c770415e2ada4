"""Where states are kept: ends of prompts and turns, branch points, every eighth block; and what prompts find there."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest
import torch

from engine.fakes import VOCAB, HashRunner, Letters, answer, drain, limits, solo, submit
from isotherm.cache.manager import BlockManager
from isotherm.cache.slots import SlotManager
from isotherm.engine.loop import Engine
from isotherm.engine.plan import Segment

PROMPT = [2 + index * 7 % 53 for index in range(150)]


class SlotRunner(HashRunner):
    """The hash of the whole context, and a state beside the blocks: it must be that of the tokens computed before."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.states: defaultdict[int, list[int]] = defaultdict(list)

    def copy(self, source: int, target: int) -> None:
        self.states[target] = list(self.states[source])

    def run(self, forward: list[Segment]) -> torch.Tensor:
        for segment in forward:
            sequence, end = segment.sequence, segment.start + segment.length
            assert sequence.slot is not None
            before = self.states[sequence.slot] if segment.start else []
            assert before == sequence.tokens[: segment.start]
            self.states[sequence.slot] = sequence.tokens[:end]
        return super().run(forward)


def slotted(num_snapshots: int = 100, **changes: Any) -> tuple[Engine, SlotRunner, SlotManager]:
    """Blocks of 4 tokens, chunks of 16, a snapshot at least every 32 tokens."""
    bounds = limits(**changes)
    runner = SlotRunner(bounds.pool_tokens // bounds.block_size, bounds)
    slots = SlotManager(bounds.max_num_seqs, num_snapshots, runner.copy)
    blocks = BlockManager(bounds.pool_tokens // bounds.block_size, bounds.block_size, evicted=slots.forget)
    return Engine(runner, blocks, bounds, Letters(), slots=slots), runner, slots


def kept(runner: SlotRunner, slots: SlotManager) -> list[int]:
    """Lengths of the prefixes whose states are kept."""
    return sorted(len(runner.states[place]) for place in slots._kept.values())


def serve(engine: Engine, sequence: int, tokens: list[int], **changes: Any) -> tuple[list[int], int]:
    """The answer, and how many tokens of the prompt were reused."""
    submit(engine, sequence, tokens, **changes)
    pieces = drain(engine)[sequence]
    assert pieces[-1].finish is not None
    return answer(pieces), pieces[-1].finish.usage.cached_tokens


@pytest.mark.parametrize(
    ("length", "places"), [(3, []), (4, [4]), (30, [28]), (33, [32]), (64, [32, 60, 64]), (103, [32, 64, 96, 100])]
)
def test_a_prompt_keeps_its_last_block_and_every_eighth(length: int, places: list[int]) -> None:
    """A prompt that ends with a block has its end too: the turn so far."""
    engine, runner, slots = slotted()
    serve(engine, 0, PROMPT[:length], max_tokens=1)
    assert kept(runner, slots) == places


def test_an_answer_keeps_only_its_end_beside_every_eighth_block() -> None:
    engine, runner, slots = slotted()
    first, _ = serve(engine, 0, PROMPT[:10], max_tokens=36)
    assert kept(runner, slots) == [8, 32, 44]
    turn = PROMPT[:10] + first + [5, 6, 7]
    assert serve(engine, 1, turn) == (solo(limits(), turn), 44)


def test_a_branch_point_is_kept_when_it_is_found() -> None:
    """Two prompts part after 20 tokens; the third that comes that way begins there."""
    engine, runner, slots = slotted()
    serve(engine, 0, PROMPT[:30], max_tokens=1)
    assert kept(runner, slots) == [28]
    hits = [serve(engine, n, PROMPT[:20] + [50 + n] * 9, max_tokens=1)[1] for n in (1, 2)]
    assert hits == [0, 20]
    assert 20 in kept(runner, slots)


def test_a_hit_rounds_down_to_a_snapshot() -> None:
    engine, _, _ = slotted()
    serve(engine, 0, PROMPT[:100], max_tokens=1)
    tokens = PROMPT[:80] + [9] * 5
    assert serve(engine, 1, tokens) == (solo(limits(), tokens), 64)


def test_fixed_chunks_have_snapshots_where_they_end() -> None:
    """Prompts of deterministic serving are shared in whole chunks of 16."""
    engine, runner, slots = slotted(deterministic=True)
    tokens = PROMPT[:30]
    for sequence, hit in enumerate((0, 16)):
        assert serve(engine, sequence, tokens) == (solo(limits(deterministic=True), tokens), hit)
    assert kept(runner, slots) == [16]


def test_the_end_of_a_turn_stays_when_another_answer_goes_on_from_it() -> None:
    """Both answer the same; the longer one has come further, but somebody stopped where it once was."""
    engine, runner, slots = slotted()
    for sequence, length in enumerate((6, 12)):
        submit(engine, sequence, PROMPT[:6], max_tokens=length)
    drain(engine)
    assert kept(runner, slots) == [4, 8, 16]


def test_who_shares_a_prompt_waits_for_the_next_snapshot_in_it() -> None:
    engine, runner, _ = slotted(prefill_chunk=8)
    for sequence in range(4):
        submit(engine, sequence, PROMPT[:70] + [sequence] * 3, max_tokens=2)
    pieces = drain(engine)
    hits = [pieces[sequence][-1].finish.usage.cached_tokens for sequence in range(4)]
    assert hits[0] == 0
    assert min(hits[1:]) >= 64
    for sequence in range(4):
        assert answer(pieces[sequence]) == solo(limits(), PROMPT[:70] + [sequence] * 3, max_tokens=2)
    assert runner.computed < 73 + 3 * 20


def test_without_snapshots_nothing_is_reused_and_nobody_waits() -> None:
    engine, _, slots = slotted(0)
    for sequence in range(3):
        submit(engine, sequence, PROMPT[:40], max_tokens=2)
    for _ in range(3):
        engine.step()
    assert len(engine.scheduler.running) == 2
    pieces = drain(engine)
    assert [pieces[n][-1].finish.usage.cached_tokens for n in range(3)] == [0, 0, 0]
    stats = engine.stats()
    assert (stats.snapshots, stats.snapshots_most, stats.snapshots_taken_total) == (0, 0, 0)
    assert slots.num_kept == 0


@pytest.mark.parametrize("num_snapshots", [1, 3, 100])
def test_many_conversations_in_little_room(num_snapshots: int) -> None:
    """Turns of growing conversations, in a crowd, with preemption; every answer is that of an engine alone."""
    engine, _, slots = slotted(num_snapshots, pool_tokens=160, max_num_seqs=3)
    rng = random.Random(num_snapshots)
    talks = [PROMPT[: rng.randrange(3, 40)] for _ in range(3)]
    for turn in range(4):
        asked = [talk + [rng.randrange(2, VOCAB) for _ in range(rng.randrange(1, 6))] for talk in talks]
        for number, tokens in enumerate(asked):
            submit(engine, turn * 3 + number, tokens, max_tokens=12)
        pieces = drain(engine)
        talks = []
        for number, tokens in enumerate(asked):
            given = answer(pieces[turn * 3 + number])
            assert given == solo(limits(), tokens, max_tokens=12)
            talks.append(tokens + given)
        assert slots.num_kept <= num_snapshots
    assert engine.stats().snapshots_restored_total > 0 or num_snapshots == 1
