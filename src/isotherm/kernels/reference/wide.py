"""The precision of the references: float32, or float64 where they are asked in it, to measure how exact others are."""

from __future__ import annotations

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """x in float32, or as it is if it is float64."""
    return x if x.dtype == torch.float64 else x.float()
