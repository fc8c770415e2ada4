"""Numbers that were worked out elsewhere: Sinkhorn mixing, stretched rotary frequencies, scales of small floats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from isotherm.kernels.cpu import hyper as compiled
from isotherm.kernels.reference import hyper
from isotherm.model.deepseek_v4.config import Yarn
from isotherm.model.deepseek_v4.rope import frequencies
from isotherm.model.low_precision import (
    E2M1,
    E4M3,
    FP8_MAX,
    fp4_values,
    from_e8m0,
    power_of_two_scale,
    to_e4m3,
    to_e8m0,
)

PRE = (0.5795045, 0.5897632, 0.4968077, 0.3885534)
POST = (0.5278795, 0.8327129, 1.2945062, 1.4413015)
COMB = (
    (0.4257593, 0.2023750, 0.1569116, 0.2149531),
    (0.0460337, 0.4634831, 0.4528758, 0.0376063),
    (0.0048504, 0.0237688, 0.2779819, 0.6933981),
    (0.5233556, 0.3103721, 0.1122297, 0.0540415),
)


def mixing() -> tuple[torch.Tensor, ...]:
    """Streams and a connection whose mixes are sin(1), sin(2), ...: ``fn`` gives them from ones."""
    fn = torch.sin(torch.arange(1, 25.0))[:, None].expand(24, 64) / 64
    return torch.ones(1, 4, 16), fn.contiguous(), 0.1 * (torch.arange(24.0) - 12) / 12, torch.tensor([0.5, 1.0, 2.0])


def test_hyper_connections_mix() -> None:
    pre, _, comb = hyper.mix(*mixing(), iterations=20, eps=1e-6, norm_eps=0.0)
    torch.testing.assert_close(pre[0], torch.tensor(PRE), atol=1e-6, rtol=0)
    assert (comb.sum(1) - 1).abs().max() < 1e-5


@pytest.mark.parametrize("read", [hyper.read, compiled.read])
def test_hyper_connections_are_read_and_written(read: Callable[..., tuple[torch.Tensor, ...]]) -> None:
    _, post, comb = read(*mixing(), torch.ones(16), 20, 1e-6, 0.0)
    torch.testing.assert_close(post[0], torch.tensor(POST), atol=1e-6, rtol=0)
    torch.testing.assert_close(comb[0], torch.tensor(COMB), atol=1e-6, rtol=0)


def test_streams_are_written_through_the_first_axis_of_comb() -> None:
    streams, output = torch.randn(3, 4, 5), torch.randn(3, 5)
    post, comb = torch.rand(3, 4), torch.rand(3, 4, 4)
    out = hyper.expand(output, streams, post, comb)
    expected = post[1, 2] * output[1] + sum(comb[1, j, 2] * streams[1, j] for j in range(4))
    torch.testing.assert_close(out[1, 2], expected)


def test_rotary_frequencies_of_flash() -> None:
    stretched = frequencies(64, 160_000.0, Yarn(16, 65_536, 32, 1))
    wanted = {0: 1, 15: 3.6355385e-3, 16: 2.2656249e-3, 20: 2.9697779e-4, 24: 1.9531253e-5, 25: 5.3723124e-6}
    for pair, value in (wanted | {31: 5.6805294e-7}).items():
        assert stretched[pair].item() == pytest.approx(value, rel=2e-7)
    plain = frequencies(64, 10_000.0, None)
    assert plain[1].item() == pytest.approx(0.7498942, rel=1e-7)
    assert plain[31].item() == pytest.approx(1.3335215e-4, rel=1e-7)


@pytest.mark.parametrize(
    ("largest", "code"), [(3.0, 120), (3.5, 120), (3.50001, 121), (448.0, 127), (1e-4, 105), (0.0, 105)]
)
def test_scales_are_powers_of_two(largest: float, code: int) -> None:
    scale = power_of_two_scale(np.array([largest], np.float32), FP8_MAX, 1e-4)
    assert to_e8m0(scale) == [code]
    assert from_e8m0(np.array([code], np.uint8)) == scale


def test_e4m3_is_what_torch_says() -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    np.testing.assert_array_equal(E4M3, codes.view(torch.float8_e4m3fn).float().numpy())
    values = torch.cat((torch.randn(20_000) * 30, torch.linspace(-448, 448, 20_001)))
    expected = values.to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    np.testing.assert_array_equal(to_e4m3(values.numpy()), expected)


def test_the_low_half_of_a_byte_comes_first() -> None:
    assert fp4_values(np.array([[0x21, 0xF7]], np.uint8)).tolist() == [[0.5, 1.0, 6.0, -6.0]]
    assert sorted(set(np.abs(E2M1).tolist())) == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
