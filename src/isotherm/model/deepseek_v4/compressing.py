"""From tokens to compressed rows, window by window, however the tokens arrive."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from isotherm.kernels.reference.compress import overlapping, pool_windows
from isotherm.kernels.reference.rotary import rotate_last
from isotherm.model.deepseek_v4.memory import Memory, Span
from isotherm.model.deepseek_v4.rope import Rope
from isotherm.model.deepseek_v4.weights import Compressor


def compress(
    compressor: Compressor, x: Tensor, span: Span, layer: int, kind: str, memory: Memory, rope: Rope, eps: float
) -> None:
    """Feed the span's inputs x [L, C] to a compressor; every window that becomes full leaves a row in ``memory``.

    State: ``ratio`` rows for tokens of the window that is being filled, and before them, where windows overlap, as many
    of the last full one, of which the first half of the channels is read.
    """
    how, ratio = compressor.how, compressor.how.ratio
    state = memory.pending(layer, span, kind)
    width = state.shape[1] // 2
    fresh = F.linear(x.float(), compressor.project)
    fresh[:, width:] += compressor.ape[torch.arange(span.start, span.end, device=x.device) % ratio]
    held = span.start % ratio
    filling = state[-ratio:]
    tokens = torch.cat((filling[:held], fresh))
    full = len(tokens) // ratio
    if full:
        first = span.start // ratio
        windows = tokens[: full * ratio].view(full, ratio, 2 * width)
        memory.add_rows(layer, span, kind, first, _rows(compressor, windows, state, first, rope, eps))
        if how.overlap > 1:
            state[:ratio] = windows[-1]
    rest = tokens[full * ratio :]
    filling[: len(rest)] = rest


def _rows(compressor: Compressor, windows: Tensor, state: Tensor, first: int, rope: Rope, eps: float) -> Tensor:
    """Windows [n, ratio, 2 o d] to rows [n, d]: pooled, normalised, rotated to their first token's position."""
    ratio, width = compressor.how.ratio, windows.shape[2] // 2
    values, gates = windows[..., :width], windows[..., width:]
    if compressor.how.overlap > 1:
        half = width // 2
        previous_values, previous_gates = state[:ratio, :half], state[:ratio, width : width + half]
        if first == 0:
            previous_values = torch.zeros_like(previous_values)
            previous_gates = torch.full_like(previous_gates, float("-inf"))
        values, gates = overlapping(previous_values, values), overlapping(previous_gates, gates)
    pooled = pool_windows(values, gates)
    rows = F.rms_norm(pooled, pooled.shape[1:], compressor.norm, eps)
    positions = torch.arange(first, first + len(rows), device=rows.device) * ratio
    return rotate_last(rows, *rope.at(positions, compressed=True))
