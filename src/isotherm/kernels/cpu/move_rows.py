"""Twins of ``Rows.write`` and ``Rows.read``."""

from __future__ import annotations

from typing import Any

import numba
import torch
from torch import Tensor

from isotherm.kernels.cpu.arrays import as_array
from isotherm.kernels.cpu.compiled import parallel
from isotherm.kernels.cpu.latent_rows import fetch_row, keep_row
from isotherm.kernels.layouts import Rows

FEW_ROWS = 64


@parallel
def _write(data: Any, page: Any, row: Any, width: int, rotated: int, values: Any) -> None:
    if page.size < FEW_ROWS:
        for i in range(page.size):
            keep_row(data, page[i], row[i], width, rotated, values, i * width)
    else:
        for i in numba.prange(page.size):
            keep_row(data, page[i], row[i], width, rotated, values, i * width)


@parallel
def _read(data: Any, page: Any, row: Any, width: int, rotated: int, out: Any) -> None:
    if page.size < FEW_ROWS:
        for i in range(page.size):
            fetch_row(data, page[i], row[i], width, rotated, out, i * width)
    else:
        for i in numba.prange(page.size):
            fetch_row(data, page[i], row[i], width, rotated, out, i * width)


def write_rows(rows: Rows, page: Tensor, row: Tensor, values: Tensor) -> None:
    """See ``layouts.RowLayout.write``; rows a multiple of 16 wide."""
    layout = rows.layout
    _write(
        as_array(rows.data), as_array(page), as_array(row), layout.width, layout.rotated,
        as_array(values.contiguous()).reshape(-1),
    )  # fmt: skip


def read_rows(rows: Rows, page: Tensor, row: Tensor) -> Tensor:
    """See ``layouts.RowLayout.read``; rows a multiple of 16 wide."""
    layout = rows.layout
    out = torch.empty(len(page), layout.width)
    _read(as_array(rows.data), as_array(page), as_array(row), layout.width, layout.rotated, as_array(out).reshape(-1))
    return out
