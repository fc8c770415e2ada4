"""Caches and queries as decode rows of DeepSeek-V4 find them, at random, for the tests of its kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from isotherm.kernels.layouts import RowLayout, Rows
from isotherm.kernels.reference.latent_attention import Seen

CPU = torch.device("cpu")
PER_PAGE = 64


def filled(layout: RowLayout, pages: int, per_page: int, size: float = 1.0) -> Rows:
    """Pages of random rows; what pads them is poison."""
    data = layout.allocate(pages, per_page, CPU)
    data.view(torch.uint8).fill_(0xFF)
    rows = Rows(layout, data, per_page)
    place = torch.arange(pages * per_page)
    rows.write(place // per_page, place % per_page, torch.randn(len(place), layout.width) * size)
    return rows


@dataclass(frozen=True)
class Case:
    """Arguments of ``attend`` without its scale."""

    query: torch.Tensor
    window: Rows
    seen: Seen
    rows: Rows
    sink: torch.Tensor
    cos: torch.Tensor
    sin: torch.Tensor

    def args(self) -> tuple:
        scale = self.query.shape[2] ** -0.5
        return self.query, self.window, self.seen, self.rows, self.sink, scale, self.cos, self.sin

    def row(self, row: int) -> Case:
        """One query alone."""
        s, one = self.seen, slice(row, row + 1)
        chosen = None if s.chosen is None else s.chosen[one].contiguous()
        seen = Seen(s.pages[one], s.firsts[one], s.recents[one], s.tables, s.of[one], s.counts[one], chosen)
        return Case(self.query[one], self.window, seen, self.rows, self.sink, self.cos[one], self.sin[one])


def case(
    layout: RowLayout, heads: int, counts: Sequence[int], recents: Sequence[int], *, listed: bool, rotated: int = 64
) -> Case:
    """A query a sequence: it sees ``recents`` rows of a window of 128 and ``counts`` compressed rows, or so many of
    twice as many where they are ``listed``. Pages lie in any order."""
    number, most = len(counts), max(1, *counts)
    blocks = -(-2 * most // PER_PAGE)
    tables = torch.randperm(number * blocks).view(number, blocks)
    chosen = None
    if listed:
        chosen = torch.full((number, most), 2**30, dtype=torch.int32)
        for row, count in enumerate(counts):
            chosen[row, :count] = torch.randperm(2 * most)[:count].sort().values.int()
    firsts = torch.randint(0, 128, (number,))
    pages = torch.randperm(number + 1)[:number]
    seen = Seen(pages, firsts, torch.tensor(recents), tables, torch.arange(number), torch.tensor(counts), chosen)
    angle = torch.rand(number, rotated // 2) * 6
    query = torch.randn(number, heads, layout.width) * 2
    window, rows = filled(layout, number + 1, 128), filled(layout, number * blocks, PER_PAGE)
    return Case(query, window, seen, rows, torch.randn(heads) * 3, angle.cos(), angle.sin())
