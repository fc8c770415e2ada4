"""How rows of numbers lie in the cache: one interface, several precisions.

A page holds a fixed number of rows. Rows go in as float32 and come back as float32, rounded to what the layout keeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from isotherm.base.latent_rows import GROUP, index_row_bytes, latent_row_bytes
from isotherm.kernels.zeros import zeros

FP8 = torch.float8_e4m3fn
FP8_MAX = 448.0


class RowLayout(Protocol):
    """``row_bytes`` counts a row with its scales, ``page_bytes`` a page of rows with what pads it.

    ``rotated`` is how many numbers at a row's end are kept apart from the others' scales.
    """

    name: str
    width: int
    rotated: int
    row_bytes: int

    def page_bytes(self, rows: int) -> int: ...

    def allocate(self, pages: int, rows: int, device: torch.device) -> Tensor:
        """Room for ``pages`` pages of ``rows`` rows, the page as first axis; starts as zeros."""
        ...

    def write(self, store: Tensor, page: Tensor, row: Tensor, values: Tensor) -> None:
        """values float32 [n, width] to rows ``row`` of pages ``page``, int64 [n] each; no place twice."""
        ...

    def read(self, store: Tensor, page: Tensor, row: Tensor) -> Tensor:
        """The rows at these places: float32 [n, width]."""
        ...

    def rounded(self, values: Tensor) -> Tensor:
        """What float32 values [n, width] would come back as."""
        ...


class PlainRows:
    """Numbers of one dtype, side by side."""

    def __init__(self, width: int, dtype: torch.dtype) -> None:
        self.name, self.width, self.rotated, self.dtype = str(dtype).removeprefix("torch."), width, 0, dtype
        self.row_bytes = width * dtype.itemsize

    def page_bytes(self, rows: int) -> int:
        return rows * self.row_bytes

    def allocate(self, pages: int, rows: int, device: torch.device) -> Tensor:
        return zeros((pages, rows, self.width), self.dtype, device)

    def write(self, store: Tensor, page: Tensor, row: Tensor, values: Tensor) -> None:
        store[page, row] = values.to(self.dtype)

    def read(self, store: Tensor, page: Tensor, row: Tensor) -> Tensor:
        return store[page, row].float()

    def rounded(self, values: Tensor) -> Tensor:
        return values.to(self.dtype).float()


class PackedLatentRows:
    """The record of DeepSeek-V4's engines: e4m3 with a power-of-two scale for every 64 numbers, rotated ones bfloat16.

    A page of P rows is P records (codes, then the rotated part), then P times the scales (one e8m0 byte each, filled up
    to eight), then nothing until the page is a multiple of a record. 512 wide that is 576 + 8 = 584 bytes a row.
    """

    name = "fp8_e4m3"

    def __init__(self, width: int, rotated: int) -> None:
        self.width, self.rotated, self._plain = width, rotated, width - rotated
        if self._plain % GROUP:
            raise ValueError(f"the {self._plain} numbers that are not rotated do not divide into groups of {GROUP}")
        self._groups = self._plain // GROUP
        self._record = self._plain + 2 * rotated
        self.row_bytes = latent_row_bytes(self.name, width, rotated)
        self._scales = self.row_bytes - self._record

    def page_bytes(self, rows: int) -> int:
        used = rows * self.row_bytes
        return -(-used // self._record) * self._record

    def allocate(self, pages: int, rows: int, device: torch.device) -> Tensor:
        return zeros((pages, self.page_bytes(rows)), torch.uint8, device)

    def _places(self, store: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        """Byte offsets in a page of the rows' records [n, record] and scales [n, groups]."""
        rows = store.shape[1] // self.row_bytes
        record = row[:, None] * self._record + torch.arange(self._record, device=row.device)
        first = rows * self._record + row[:, None] * self._scales
        return record, first + torch.arange(self._groups, device=row.device)

    def write(self, store: Tensor, page: Tensor, row: Tensor, values: Tensor) -> None:
        # The numbers are rounded to bfloat16 first, as they were when the model was trained.
        narrow = values.bfloat16()
        groups = narrow[:, : self._plain].float().view(-1, self._groups, GROUP)
        scale = power_of_two_scale(groups.abs().amax(-1))
        codes = (groups / scale[..., None]).clamp(-FP8_MAX, FP8_MAX).to(FP8).view(torch.uint8).flatten(1)
        turned = narrow[:, self._plain :].contiguous().view(torch.uint8)
        records, scales = self._places(store, row)
        store[page[:, None], records] = torch.cat((codes, turned), dim=1)
        store[page[:, None], scales] = (scale.view(torch.int32) >> 23).to(torch.uint8)

    def read(self, store: Tensor, page: Tensor, row: Tensor) -> Tensor:
        records, scales = self._places(store, row)
        record = store[page[:, None], records]
        scale = (store[page[:, None], scales].to(torch.int32) << 23).view(torch.float32)
        plain = record[:, : self._plain].contiguous().view(FP8).float().view(-1, self._groups, GROUP)
        turned = record[:, self._plain :].contiguous().view(torch.bfloat16).float()
        return torch.cat(((plain * scale[..., None]).flatten(1), turned), dim=1)

    def rounded(self, values: Tensor) -> Tensor:
        return _written_and_read(self, values)


def power_of_two_scale(largest: Tensor) -> Tensor:
    """The smallest power of two s with max(largest, 1e-4) <= 448 s, from the bits of float32; exact powers stay."""
    ratio = largest.clamp(min=1e-4) / FP8_MAX
    bits = ratio.view(torch.int32)
    up = (bits & 0x7FFFFF != 0).to(torch.int32)
    return ((bits >> 23) + up << 23).view(torch.float32)


class ScaledRows:
    """The indexer's keys: e4m3 with one float32 scale a row. A page is the codes of its rows, then their scales."""

    name = "fp8_e4m3"

    def __init__(self, width: int) -> None:
        self.width, self.rotated, self.row_bytes = width, 0, index_row_bytes(self.name, width)

    def page_bytes(self, rows: int) -> int:
        return rows * self.row_bytes

    def allocate(self, pages: int, rows: int, device: torch.device) -> Tensor:
        return zeros((pages, self.page_bytes(rows)), torch.uint8, device)

    def _places(self, store: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        rows = store.shape[1] // self.row_bytes
        codes = row[:, None] * self.width + torch.arange(self.width, device=row.device)
        return codes, rows * self.width + row[:, None] * 4 + torch.arange(4, device=row.device)

    def write(self, store: Tensor, page: Tensor, row: Tensor, values: Tensor) -> None:
        scale = values.abs().amax(-1, keepdim=True).clamp(min=1e-4) / FP8_MAX
        codes, scales = self._places(store, row)
        store[page[:, None], codes] = (values / scale).clamp(-FP8_MAX, FP8_MAX).to(FP8).view(torch.uint8)
        store[page[:, None], scales] = scale.contiguous().view(torch.uint8)

    def read(self, store: Tensor, page: Tensor, row: Tensor) -> Tensor:
        codes, scales = self._places(store, row)
        numbers = store[page[:, None], codes].contiguous().view(FP8).float()
        return numbers * store[page[:, None], scales].contiguous().view(torch.float32)

    def rounded(self, values: Tensor) -> Tensor:
        return _written_and_read(self, values)


def _written_and_read(layout: RowLayout, values: Tensor) -> Tensor:
    store, row = layout.allocate(1, len(values), values.device), torch.arange(len(values), device=values.device)
    page = torch.zeros_like(row)
    layout.write(store, page, row, values)
    return layout.read(store, page, row)


@dataclass(frozen=True, slots=True)
class Rows:
    """Pages of ``per_page`` rows in one layout; ``data`` as the layout allocates it."""

    layout: RowLayout
    data: Tensor
    per_page: int

    def write(self, page: Tensor, row: Tensor, values: Tensor) -> None:
        """See ``RowLayout.write``."""
        self.layout.write(self.data, page, row, values)

    def read(self, page: Tensor, row: Tensor) -> Tensor:
        """See ``RowLayout.read``."""
        return self.layout.read(self.data, page, row)


def loose(rows: Tensor) -> Rows:
    """Rows [n, D], float32 or bfloat16, as the only page of a store."""
    return Rows(PlainRows(rows.shape[1], rows.dtype), rows[None], len(rows))


def latent_layout(name: str, width: int, rotated: int) -> RowLayout:
    """The layout of attention rows for ``fp8_e4m3``, ``bfloat16`` or ``float32``."""
    return PackedLatentRows(width, rotated) if name == "fp8_e4m3" else PlainRows(width, getattr(torch, name))


def index_layout(name: str, width: int) -> RowLayout:
    """The layout of the indexer's keys, by the same names."""
    return ScaledRows(width) if name == "fp8_e4m3" else PlainRows(width, getattr(torch, name))
