"""A few forwards before the first request, so that nobody waits for code to be compiled or read from its cache."""

from __future__ import annotations

from isotherm.base.block import BLOCK_SIZE
from isotherm.engine.plan import Segment
from isotherm.engine.runner import Runner
from isotherm.engine.sequence import Sequence

ROWS = (1, 4, 32)
"""Decode steps of one row; of more than run their small phases on one thread; of enough for the matrix unit."""


def warm_up(runner: Runner) -> None:
    """Run a prefill in two chunks and decode steps of one row and of more over the first block.

    What is written there is overwritten by the first sequence that gets the block.
    """
    sequence = Sequence(id=0, tokens=[0] * BLOCK_SIZE, blocks=[0])
    half = BLOCK_SIZE // 2
    runner.run([Segment(sequence, 0, half, decode=False, ends_context=False)])
    runner.run([Segment(sequence, half, half, decode=False, ends_context=True)])
    last = Segment(sequence, BLOCK_SIZE - 1, 1, decode=True, ends_context=True)
    for rows in ROWS:
        runner.run([last] * rows)
