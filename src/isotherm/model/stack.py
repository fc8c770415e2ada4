"""Whole forwards in one compiled call on the CPU: which of the two calls takes a batch, and what it is given."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from isotherm.kernels.cpu import matrix_stack
from isotherm.kernels.cpu.decode_stack import decode_stack
from isotherm.kernels.cpu.flash import ROWS
from isotherm.kernels.cpu.stack_weights import StackWeights
from isotherm.model.batch import Batch


@dataclass(frozen=True, slots=True)
class Stack:
    """``unit`` says whether the machine's matrix unit computes prompts, and decode steps of ``few_rows`` rows or more.

    Decode steps of fewer rows take the vector form, which reads weights as they are kept. A prompt never does, so that
    what it leaves in the cache is made of activations that were not rounded to 8 bits.
    """

    weights: StackWeights
    unit: bool
    few_rows: int

    @property
    def name(self) -> str:
        return "one-call forwards on the matrix unit" if self.unit else "one-call decode"

    def takes(self, batch: Batch) -> bool:
        return self.unit or self._on_vectors(batch)

    def _on_vectors(self, batch: Batch) -> bool:
        return not batch.prefill and batch.slots.numel() < self.few_rows

    def run(self, x: Tensor, cos: Tensor, sin: Tensor, batch: Batch, keys: Tensor, values: Tensor) -> None:
        """All layers, for a batch that ``takes`` said yes to; x float32 [T, C] is updated in place."""
        if self._on_vectors(batch):
            decode_stack(x, cos, sin, batch.slots, batch.tables, batch.lengths, keys, values, self.weights)
            return
        tasks, blocks = _prompt_tasks(batch)
        matrix_stack.matrix_stack(
            x, cos, sin, batch.slots, tasks, blocks, batch.tables, batch.lengths, keys, values, self.weights
        )


def _prompt_tasks(batch: Batch) -> tuple[Tensor, Tensor]:
    """``tasks`` and ``prompt_blocks`` of ``matrix_stack``."""
    tasks, place = [], 0
    for span in batch.prefill:
        for first in range(span.first, span.last, ROWS):
            position = span.start + first - span.first
            tasks.append((first, min(ROWS, span.last - first), position, place))
        place += span.blocks.numel()
    blocks = torch.cat([span.blocks for span in batch.prefill]) if batch.prefill else torch.empty(0)
    return torch.tensor(tasks, dtype=torch.int64).view(-1, 4), blocks.to(torch.int32)
