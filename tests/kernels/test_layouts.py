"""Rows of the cache in every precision: what comes back, and the bytes of the packed record."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from isotherm.kernels.layouts import PackedLatentRows, PlainRows, RowLayout, ScaledRows, index_layout, latent_layout

CPU = torch.device("cpu")
LAYOUTS: list[tuple[RowLayout, float]] = [
    (PlainRows(80, torch.float32), 0),
    (PlainRows(80, torch.bfloat16), 2**-8),
    (PackedLatentRows(80, 16), 2**-3.9),
    (PackedLatentRows(512, 64), 2**-3.9),
    (ScaledRows(32), 2**-3.9),
]


@pytest.mark.parametrize(("layout", "error"), LAYOUTS, ids=lambda value: getattr(value, "name", ""))
def test_rows_come_back_from_where_they_were_put(layout: RowLayout, error: float) -> None:
    store = layout.allocate(3, 8, CPU)
    page, row = torch.tensor([2, 0, 2, 1]), torch.tensor([7, 0, 3, 5])
    values = torch.randn(4, layout.width) * torch.tensor([0.01, 1, 5, 100])[:, None]
    layout.write(store, page, row, values)
    got = layout.read(store, page, row)
    assert (got - values).abs().max(-1).values.tolist() <= (error * values.abs().max(-1).values + 1e-9).tolist()
    others = layout.read(store, torch.tensor([0, 1, 2]), torch.tensor([1, 0, 0]))
    assert not others.any()


def test_a_packed_page_is_the_record_of_the_engines_for_this_model() -> None:
    """584 bytes a row: all codes and rotated parts of a page, then all scales, then nothing to a multiple of 576."""
    layout = latent_layout("fp8_e4m3", 512, 64)
    assert layout.row_bytes == 584
    assert layout.allocate(1, 256, CPU).shape == (1, 149_760)
    assert layout.allocate(1, 64, CPU).shape == (1, 37_440)
    assert layout.allocate(1, 2, CPU).shape == (1, 1_728)
    random = np.random.default_rng(0)
    values = torch.from_numpy(random.normal(0, 3, (2, 512)).astype(np.float32))
    store = layout.allocate(1, 2, CPU)
    layout.write(store, torch.tensor([0, 0]), torch.tensor([1, 0]), values)
    page = store[0].numpy()
    for place, number in ((1, 0), (0, 1)):
        narrow = values[number].bfloat16()
        for group in range(7):
            part = narrow[group * 64 : (group + 1) * 64].float()
            exponent = int(np.ceil(np.log2(max(float(part.abs().max()), 1e-4) / 448)))
            assert page[2 * 576 + place * 8 + group] == exponent + 127
            codes = (part / 2.0**exponent).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
            first = place * 576 + group * 64
            np.testing.assert_array_equal(page[first : first + 64], codes)
        turned = narrow[448:].contiguous().view(torch.uint8).numpy()
        np.testing.assert_array_equal(page[place * 576 + 448 : (place + 1) * 576], turned)
        assert page[2 * 576 + place * 8 + 7] == 0


def test_keys_of_the_indexer_take_132_bytes() -> None:
    assert index_layout("fp8_e4m3", 128).row_bytes == 132


def test_a_width_that_does_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="48 numbers that are not rotated do not divide into groups of 64"):
        latent_layout("fp8_e4m3", 64, 16)
