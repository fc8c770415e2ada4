"""Cases of attention and of the indexer at the shapes of DeepSeek-V4-Flash, over caches as they lie."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from isotherm.kernels.dispatch import LatentOps
from isotherm.kernels.layouts import RowLayout, Rows, index_layout, latent_layout
from isotherm.kernels.measuring.case import Case, Data
from isotherm.kernels.measuring.roof import Work
from isotherm.kernels.reference import compress, latent_attention
from isotherm.kernels.reference.latent_attention import Seen

HEADS, SIZE, ROTATED, WINDOW, CHOSEN = 64, 512, 64, 128, 512
INDEX_HEADS, INDEX_SIZE, INDEX_BATCH = 64, 128, 4
PER_PAGE = 64
SEQUENCES, CONTEXT_ROWS = 32, 1024
"""Of the attention's cache: 4,096 tokens of 32 sequences, so that a query's rows are not where the last one's were."""
CPU = torch.device("cpu")


def filled(layout: RowLayout, pages: int, per_page: int) -> Rows:
    """Pages full of random rows."""
    rows = Rows(layout, layout.allocate(pages, per_page, CPU), per_page)
    values, place = torch.randn(4096, layout.width), torch.arange(pages * per_page)
    for first in range(0, len(place), 4096):
        part = place[first : first + 4096]
        rows.write(part // per_page, part % per_page, values[: len(part)])
    return rows


def attend_cases(precisions: tuple[str, ...], batches: tuple[int, ...]) -> list[Case]:
    """Sparse decode: 64 heads over 128 rows of a window and 512 chosen ones."""
    cases = []
    for name in precisions:
        row_bytes = latent_layout(name, SIZE, ROTATED).row_bytes
        for batch in batches:
            rows = batch * (WINDOW + CHOSEN)
            work = Work(rows * row_bytes + batch * HEADS * SIZE * 4, 4 * rows * HEADS * SIZE, matrix=True)
            shape = f"{name}, {batch} x {HEADS} heads x {WINDOW + CHOSEN} rows of {SIZE}"
            cases.append(Case("attend", shape, work, partial(_attend, name, batch), stock=True))
    return cases


def _attend(name: str, batch: int) -> Data:
    layout = latent_layout(name, SIZE, ROTATED)
    blocks = CONTEXT_ROWS // PER_PAGE
    window, rows = filled(layout, SEQUENCES, WINDOW), filled(layout, SEQUENCES * blocks, PER_PAGE)
    tables, sink = torch.randperm(SEQUENCES * blocks).view(SEQUENCES, blocks), torch.randn(HEADS)
    angles, queries = torch.rand(SEQUENCES, ROTATED // 2) * 6, torch.randn(SEQUENCES, HEADS, SIZE) * 2

    def arguments(first: int) -> tuple[Any, ...]:
        of = (torch.arange(batch) + first) % SEQUENCES
        chosen = torch.stack([torch.randperm(CONTEXT_ROWS)[:CHOSEN].sort().values.int() for _ in range(batch)])
        full = torch.full((batch,), WINDOW), torch.full((batch,), CHOSEN)
        seen = Seen(of, torch.randint(WINDOW, (batch,)), full[0], tables, of, full[1], chosen)
        turn = angles.cos()[of].contiguous(), angles.sin()[of].contiguous()
        return queries[of].contiguous(), window, seen, rows, sink, SIZE**-0.5, *turn

    sets = [arguments(first) for first in range(0, SEQUENCES, batch)]
    exact = latent_attention.attend(sets[0][0].double(), *sets[0][1:])

    def error(out: Tensor) -> float:
        """Relative to a head's largest number."""
        return float(((out - exact).abs().amax(-1) / exact.abs().amax(-1)).max())

    # Queries, shares and a result's terms are rounded to eight bits; float32 versions are far below.
    return Data(lambda ops, i: ops.attend(*sets[i]), len(sets), error, 2**-6)


def choose_cases(contexts: tuple[int, ...]) -> list[Case]:
    """The indexer: 64 heads of 128 over one row for four tokens of context, 512 of them chosen."""
    cases = []
    for context in contexts:
        rows = INDEX_BATCH * context // 4
        layout = index_layout("fp8_e4m3", INDEX_SIZE)
        flops = 2 * rows * INDEX_HEADS * INDEX_SIZE
        shape = f"fp8_e4m3, {INDEX_BATCH} x {INDEX_HEADS} heads of {INDEX_SIZE}, {context:,} tokens"
        work = Work(rows * layout.row_bytes, flops, matrix=True)
        cases.append(Case("choose", shape, work, partial(_choose, context // 4), stock=True))
    return cases


def _choose(count: int) -> Data:
    blocks = -(-count // PER_PAGE)
    keys = filled(index_layout("fp8_e4m3", INDEX_SIZE), INDEX_BATCH * blocks, PER_PAGE)
    tables, of = torch.randperm(INDEX_BATCH * blocks).view(INDEX_BATCH, blocks), torch.arange(INDEX_BATCH)
    queries, weights = torch.randn(INDEX_BATCH, INDEX_HEADS, INDEX_SIZE), torch.rand(INDEX_BATCH, INDEX_HEADS)
    counts = torch.full((INDEX_BATCH,), count)

    def run(ops: LatentOps, _: int) -> Tensor:
        return ops.choose(queries, weights, keys, tables, of, counts, CHOSEN)

    place = torch.arange(count)
    rows = [keys.read(table[place // PER_PAGE], place % PER_PAGE).double() for table in tables]
    scores = [compress.index_scores(queries[t : t + 1].double(), weights[t : t + 1].double(), rows[t])[0] for t in of]

    def error(out: Tensor) -> float:
        """By how much the worst of the chosen misses the score of the last of the best; infinite if one comes twice."""
        worst, chosen = 0.0, min(CHOSEN, count)
        for t, exact in enumerate(scores):
            least, ours = exact.topk(chosen).values[-1], torch.tensor(sorted(set(out[t, :chosen].tolist())))
            missing = float("inf") if len(ours) < chosen else 0.0
            worst = max(worst, missing, float((least - exact[ours].min()) / least.abs()))
        return worst

    return Data(run, 1, error, 1e-5)
