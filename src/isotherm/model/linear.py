"""Linear layers in the form that is fastest for the machine, the precision and the number of rows."""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from isotherm.kernels.cpu import dense
from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.matmul import matmul
from isotherm.kernels.cpu.tiled_weight import TiledWeight


class Linear(Protocol):
    """y = x W^T + b: x [rows, K] in the model's dtype -> [rows, N] in the same dtype or in float32."""

    @property
    def name(self) -> str: ...

    def __call__(self, x: Tensor) -> Tensor: ...


class PlainLinear:
    """PyTorch's own product, for devices other than the CPU and for bfloat16."""

    name = "torch"

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class PreciseLinear:
    """float32 on the CPU, inputs summed in runs.

    The library adds up all products of an output one after the other, and its rounding error grows with their number:
    logits of a 135M network were up to 1.2e-4 from exact ones in one run, and are 0.6e-4 in runs of 128.
    """

    name = "torch-runs"
    RUN = 128

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._parts = torch.split(weight, self.RUN, dim=1)
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        out = F.linear(x[:, : self.RUN], self._parts[0], self._bias)
        for index, part in enumerate(self._parts[1:], 1):
            out.addmm_(x[:, index * self.RUN : (index + 1) * self.RUN], part.T)
        return out


class StoredLinear:
    """Few rows over the weights as they are stored, in one compiled call; more through ``many``. Gives float32."""

    name = "stored"

    def __init__(self, weight: Tensor, many: Linear) -> None:
        self._weight, self._many = as_array(weight), many

    def __call__(self, x: Tensor) -> Tensor:
        return dense.linear(x, self._weight) if x.shape[0] <= dense.FEW_ROWS else self._many(x).float()


class PackedLinear:
    """bfloat16 weights laid out once for oneDNN; about twice as fast as re-ordering them at every call."""

    name = "onednn-packed"

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), PACKED_FOR_ROWS)
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
        return out


class FixedRowsLinear:
    """Computes few rows in blocks of exactly sixteen, so that a row's result does not depend on how many there are.

    Libraries choose another kernel, with another order of sums, for another number of rows. ``--deterministic`` may not
    let them: with fewer than ``few_rows`` rows (decoding) the last block is filled up with zeros. More rows than that
    are one sequence's prefill, whose shape depends on its prompt alone.
    """

    name = "fixed-rows"

    def __init__(self, inner: Linear, few_rows: int) -> None:
        self._inner, self._few_rows = inner, few_rows

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.shape[0]
        if rows >= self._few_rows:
            return self._inner(x)
        padded = F.pad(x, (0, 0, 0, -rows % FIXED_ROWS))
        return torch.cat([self._inner(block) for block in torch.split(padded, FIXED_ROWS)])[:rows]


FIXED_ROWS = 16


class TiledLinear:
    """Weights as they are kept, in tiles of 4, 8 or 16 bits: reads least memory.

    With ``unit``, ``few_rows`` rows or more are multiplied on the matrix unit.
    """

    def __init__(self, weight: TiledWeight, unit: bool, few_rows: int) -> None:
        self.weight, self._unit, self._few_rows = weight, unit, few_rows

    @property
    def name(self) -> str:
        return f"{self.weight.bits}-bit"

    def __call__(self, x: Tensor) -> Tensor:
        return matmul(x, self.weight, matrix_unit=self._unit and x.shape[0] >= self._few_rows)


PACKED_FOR_ROWS = 32
"""Row count told to oneDNN when it chooses the layout; the product itself takes any number."""


def packing_works() -> bool:
    """Whether this build of PyTorch on this CPU multiplies packed bfloat16 weights (tried, not guessed)."""
    if not (torch._C._has_mkldnn and torch.ops.mkldnn._is_mkldnn_bf16_supported()):
        return False
    weight, x = torch.eye(32, dtype=torch.bfloat16), torch.ones(3, 32, dtype=torch.bfloat16)
    try:
        return bool(torch.equal(PackedLinear(weight, None)(x), x))
    except (RuntimeError, AttributeError):
        return False


def build(weight: Tensor, bias: Tensor | None, *, packed: bool, fixed_below: int | None = None) -> Linear:
    """A layer from weight [N, K] and bias [N], both already in the model's dtype and on its device.

    ``fixed_below`` makes the results of fewer rows than that independent of their number.
    """
    precise = weight.dtype == torch.float32 and weight.device.type == "cpu"
    layer: Linear = PackedLinear(weight, bias) if packed else (PreciseLinear if precise else PlainLinear)(weight, bias)
    return layer if fixed_below is None else FixedRowsLinear(layer, fixed_below)
