"""From tokens to compressed rows, window by window, however the tokens arrive."""

from __future__ import annotations

import torch
from torch import Tensor

from isotherm.kernels.dispatch import LatentOps
from isotherm.kernels.layouts import Rows
from isotherm.kernels.reference.compress import compress_span
from isotherm.model.deepseek_v4.memory import Span
from isotherm.model.deepseek_v4.rope import Rope
from isotherm.model.deepseek_v4.weights import Compressor


def compress_tokens(
    compressor: Compressor,
    fresh: Tensor,
    span: Span,
    states: Tensor,
    rows: Rows,
    ops: LatentOps,
    rope: Rope,
    eps: float,
) -> None:
    """A span's projected tokens [L, 2 o d]: every window that becomes full leaves a row in ``rows``."""
    ratio, first = compressor.how.ratio, span.start // compressor.how.ratio
    pooled = compress_span(fresh, compressor.ape, states[span.slot], span.start)
    if not len(pooled):
        return
    index = torch.arange(first, first + len(pooled), device=fresh.device)
    turned = ops.turn(pooled, *rope.at(index * ratio, compressed=True), eps, compressor.norm)
    ops.write_rows(rows, span.blocks[index // rows.per_page], index % rows.per_page, turned)
