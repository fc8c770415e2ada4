"""Twin of ``reference.rotary.rotate_last``."""

from __future__ import annotations

from typing import Any

import numba
import torch
from torch import Tensor

from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.compiled import kernel, parallel

FEW_ROWS = 32


@kernel
def _rotate_row(x: Any, cos: Any, sin: Any, sign: float, out: Any) -> None:
    """All vectors of a row: x [n, D]."""
    plain = x.shape[1] - 2 * cos.size
    for vector in range(x.shape[0]):
        for c in range(plain):
            out[vector, c] = x[vector, c]
        for pair in range(cos.size):
            even, odd = x[vector, plain + 2 * pair], x[vector, plain + 2 * pair + 1]
            out[vector, plain + 2 * pair] = even * cos[pair] - sign * odd * sin[pair]
            out[vector, plain + 2 * pair + 1] = odd * cos[pair] + sign * even * sin[pair]


@parallel
def _rotate(x: Any, cos: Any, sin: Any, sign: float, out: Any, few: int) -> None:
    if x.shape[0] < few:
        for row in range(x.shape[0]):
            _rotate_row(x[row], cos[row], sin[row], sign, out[row])
    else:
        for row in numba.prange(x.shape[0]):
            _rotate_row(x[row], cos[row], sin[row], sign, out[row])


def rotate_last(x: Tensor, cos: Tensor, sin: Tensor, *, back: bool = False) -> Tensor:
    """See ``reference.rotary.rotate_last``; x float32."""
    whole = x.reshape(x.shape[0], -1, x.shape[-1]).contiguous()
    out = torch.empty_like(whole)
    _rotate(as_array(whole), as_array(cos), as_array(sin), -1.0 if back else 1.0, as_array(out), FEW_ROWS)
    return out.view(x.shape)
