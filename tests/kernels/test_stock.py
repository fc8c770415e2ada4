"""The slow twins that others are compared with: as right as the fast ones."""

from __future__ import annotations

import pytest
import torch

from isotherm.base.errors import SetupError
from isotherm.kernels import dispatch
from isotherm.kernels.layouts import RowLayout, index_layout, latent_layout
from support.latent_cases import CPU, case, filled

STOCK = dispatch.select_latent(CPU, 64, variants=dispatch.VARIANTS, index_rows=900)
FAST, REF = dispatch.select_latent(CPU, 64), dispatch.LATENT_REFERENCE
LAYOUTS = [latent_layout(name, 80, 16) for name in ("float32", "bfloat16", "fp8_e4m3")]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_a_variant_is_chosen_by_name() -> None:
    assert STOCK.name == "cpu-numba, stock-attend, stock-index"
    assert STOCK.mix is FAST.mix
    only = dispatch.select_latent(CPU, 64, variants=["stock-attend"])
    assert (only.attend, only.choose) == (STOCK.attend, FAST.choose)
    with pytest.raises(SetupError, match=r"No kernel variant is called 'stock'\. There are stock-attend, stock-index"):
        dispatch.select_latent(CPU, 64, variants=["stock"])
    for device, width in ((CPU, 24), (torch.device("meta"), 64)):
        with pytest.raises(SetupError, match="Leave the setting out"):
            dispatch.select_latent(device, width, variants=["stock-index"])


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_stock_attend(layout: RowLayout, listed: bool) -> None:
    args = case(layout, 5, [0, 1, 70, 33], [1, 128, 40, 7], listed=listed, rotated=16).args()
    torch.testing.assert_close(STOCK.attend(*args), REF.attend(*args), atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("name", ["float32", "bfloat16", "fp8_e4m3"])
@pytest.mark.parametrize("counts", [[40, 0, 1, 7, 300], [1200, 8, 9]])
def test_stock_choose(name: str, counts: list[int]) -> None:
    """Longer than what was configured, shorter, and with fewer rows than are chosen."""
    keys, blocks = filled(index_layout(name, 64), 20 * len(counts), 64), 20
    tables = torch.randperm(blocks * len(counts)).view(len(counts), blocks)
    queries, weights = torch.randn(len(counts), 6, 64), torch.randn(len(counts), 6)
    args = (queries, weights, keys, tables[:, : -(-max(counts) // 64)], torch.arange(len(counts)), torch.tensor(counts))
    mine, theirs, fast = STOCK.choose(*args, 8), REF.choose(*args, 8), FAST.choose(*args, 8)
    for row, count in enumerate(counts):
        assert mine[row, :count].tolist() == theirs[row, :count].tolist() == fast[row, :count].tolist()
