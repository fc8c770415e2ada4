"""Torch tensors as numpy arrays without a copy; numpy has no bfloat16, so those become uint16 with the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def as_array(tensor: Tensor) -> NDArray[Any]:
    """A view of a contiguous CPU tensor."""
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor.numpy()
