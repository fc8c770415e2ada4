"""One operation at one shape: data for it, the least work, and how wrong a result is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from isotherm.kernels.dispatch import LatentOps
from isotherm.kernels.measuring.roof import Work


@dataclass(frozen=True, slots=True)
class Data:
    """``run`` calls the operation of some ops on data number i, of ``sets`` that do not share what they read.

    ``error`` compares a result on data 0 with the reference in float64; more than ``tolerance`` is a finding.
    """

    run: Callable[[LatentOps, int], Any]
    sets: int
    error: Callable[[Any], float]
    tolerance: float


@dataclass(frozen=True, slots=True)
class Case:
    """``make`` builds the data, which may be large, when its turn comes. ``stock``: there is a slow twin to compare."""

    op: str
    shape: str
    work: Work
    make: Callable[[], Data]
    stock: bool = False
