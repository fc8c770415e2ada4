"""Bytes of a DeepSeek-V4 cache, counted in the tensors of a real pool."""

import pytest

from isotherm.model.deepseek_v4.tiny import write_tiny
from kv_precision import LAYERS, PRECISIONS, RECORDS, bytes_per_token, compare
from support.latent import some_tokens

PADDED = ("C128", "fp8_e4m3")
"""Two rows a page: 1,168 bytes of records in a page of 1,728."""


@pytest.mark.parametrize(("layer", "name"), RECORDS)
def test_a_token_costs_what_its_records_hold(tmp_path, layer, name):
    taken = bytes_per_token(tmp_path, LAYERS[layer][0], name)
    assert taken == pytest.approx(1728 / 256 if (layer, name) == PADDED else RECORDS[layer, name], rel=0.03)


def test_fp8_lies_further_from_float32_than_bfloat16(tmp_path):
    write_tiny(tmp_path)
    found = compare(tmp_path, [some_tokens(300, seed=1)])
    narrow, packed = (found[name][0] for name in PRECISIONS)
    assert 0 < narrow.mean < packed.mean < 0.5
    assert packed.agreement < narrow.agreement
