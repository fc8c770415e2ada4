"""Attention over latent rows on the matrix unit, against the definition in float64."""

from __future__ import annotations

import numba
import pytest
import torch

from isotherm.kernels import dispatch
from isotherm.kernels.cpu.amx import has_amx
from isotherm.kernels.cpu.compiled import use_threads
from isotherm.kernels.layouts import RowLayout, latent_layout
from isotherm.kernels.reference import latent_attention
from support.latent_cases import CPU, Case, case

pytestmark = pytest.mark.skipif(not has_amx(), reason="this CPU has no matrix unit")

ATTEND = dispatch.select_latent(CPU, 16).attend
LAYOUTS = [latent_layout(name, *width) for width in ((512, 64), (80, 16)) for name in ("bfloat16", "fp8_e4m3")]
COUNTS, RECENTS = [0, 1, 31, 32, 640, 512, 200], [1, 128, 128, 60, 0, 128, 5]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def exact(each: Case) -> torch.Tensor:
    """In float64, from queries rounded to bfloat16 as the unit multiplies them."""
    query, *rest = each.args()
    return latent_attention.attend(query.bfloat16().double(), *rest)


def error(ours: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest difference relative to a head's largest number."""
    return float(((ours - expected).abs().amax(-1) / expected.abs().amax(-1)).max())


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("heads", [16, 20, 64, 128])
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"{layout.name}-{layout.width}")
def test_all_heads_and_layouts(layout: RowLayout, heads: int, listed: bool) -> None:
    each = case(layout, heads, COUNTS, RECENTS, listed=listed, rotated=min(64, layout.width // 5))
    assert error(ATTEND(*each.args()), exact(each)) < 2**-7


def test_more_rows_than_a_part_holds() -> None:
    each = case(LAYOUTS[1], 32, [4000, 321, 2000], [128, 0, 1], listed=False)
    assert error(ATTEND(*each.args()), exact(each)) < 2**-7


@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=lambda layout: layout.name)
def test_scores_that_rise_by_hundreds_and_sinks_that_take_all(layout: RowLayout) -> None:
    each = case(layout, 16, [700, 40], [128, 3], listed=False)
    each.query[0] *= torch.linspace(0.1, 40, 16)[:, None]
    each.sink[:4] = torch.tensor([-200.0, 200.0, 30.0, 0.0])
    got, expected = ATTEND(*each.args()), exact(each)
    assert torch.isfinite(got).all()
    torch.testing.assert_close(got.double(), expected, atol=0.03, rtol=0)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e4])
def test_packed_numbers_of_any_size_and_zeros(scale: float) -> None:
    """Codes without an exponent, zeros of both signs, small and large scales."""
    layout = LAYOUTS[1]
    each = case(layout, 16, [64], [4], listed=False)
    values = (
        torch.randn(64, 512)
        * scale
        * torch.tensor([0.0, -0.0, 1, 1e-3, 1e-4, 3e-5, -2e-5, 1])[torch.randint(8, (64, 512))]
    )
    index = torch.arange(64)
    each.rows.write(each.seen.tables[0, :1].expand(64), index, values)
    each.query.mul_(0.1 / max(scale, 1))
    assert error(ATTEND(*each.args()), exact(each)) < 2**-7


@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=lambda layout: layout.name)
def test_a_row_is_bitwise_the_same_in_any_company_on_any_number_of_threads(layout: RowLayout) -> None:
    each = case(layout, 64, COUNTS, RECENTS, listed=True)
    together, threads = ATTEND(*each.args()), numba.get_num_threads()
    try:
        for some in {1, threads}:
            use_threads(some)
            assert torch.equal(ATTEND(*each.args()), together)
            for row in range(len(COUNTS)):
                assert torch.equal(ATTEND(*each.row(row).args())[0], together[row])
    finally:
        use_threads(threads)


def test_few_heads_and_exact_caches_stay_exact() -> None:
    for name, heads in (("float32", 64), ("bfloat16", 8)):
        each = case(latent_layout(name, 80, 16), heads, [40, 3], [128, 2], listed=True, rotated=16)
        expected = latent_attention.attend(*each.args())
        torch.testing.assert_close(ATTEND(*each.args()), expected, atol=2e-5, rtol=2e-5)
