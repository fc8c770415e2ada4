"""Muon: momentum whose update is made nearly orthogonal, for matrices inside the network.

All directions of a matrix then move equally far, also those that few tokens speak of. DeepSeek-V4 was trained so too.
Source: K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024). PyTorch has one for single
matrices; experts are stacks of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic iteration: five steps bring all singular values between 0.7 and 1.2."""
ITERATIONS = 5


class Muon(torch.optim.Optimizer):
    """For parameters [..., rows, columns]; ``lr`` is the step's size for a matrix that is not higher than wide."""

    def __init__(self, params: Iterable[Tensor], lr: float, momentum: float = 0.95, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """One update; parameters without a gradient stay."""
        del closure
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(self, parameter: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["mean"] = torch.zeros_like(grad)
        mean = state["mean"].lerp_(grad, 1 - group["momentum"])
        update = orthogonal(grad.lerp(mean, group["momentum"]))
        rows, columns = parameter.shape[-2:]
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.add_(update, alpha=-group["lr"] * max(1.0, rows / columns) ** 0.5)


def orthogonal(matrix: Tensor) -> Tensor:
    """[..., rows, columns] with all singular values brought near 1, by Newton-Schulz iteration, in bfloat16."""
    high = matrix.shape[-2] > matrix.shape[-1]
    x = (matrix.mT if high else matrix).bfloat16()
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    result: Tensor = (x.mT if high else x).to(matrix.dtype)
    return result
