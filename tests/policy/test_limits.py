"""What fits into the context, and who is blamed when it does not."""

from __future__ import annotations

import pytest

from isotherm.base.errors import RequestError
from isotherm.policy.limits import Clamp, fit


def test_no_wish_gets_all_the_room():
    assert fit(30, 100, None) == (70, None)


def test_a_wish_that_fits_is_granted():
    assert fit(30, 100, 70) == (70, None)


def test_a_greater_wish_is_clamped_and_blamed_on_max_tokens():
    granted, clamp = fit(30, 100, 71)
    assert granted == 70
    assert isinstance(clamp, Clamp)
    assert (clamp.param, clamp.asked, clamp.used) == ("max_tokens", 71, 70)
    assert "prompt is too long" not in clamp.reason


@pytest.mark.parametrize(("prompt_tokens", "asked"), [(100, None), (100, 1), (101, None), (101, 0), (5000, 10)])
def test_a_prompt_without_room_is_refused_with_both_numbers(prompt_tokens, asked):
    with pytest.raises(RequestError) as refused:
        fit(prompt_tokens, 100, asked)
    assert refused.value.code == "context_length_exceeded"
    assert str(prompt_tokens) in refused.value.message
    assert "100" in refused.value.message


def test_nothing_asked_needs_no_room():
    assert fit(100, 100, 0) == (0, None)
