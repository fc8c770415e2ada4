"""The table of sampling values: ranges, operator's settings, a model's recommendations."""

from __future__ import annotations

import math

import pytest

from isotherm.base.errors import SetupError
from isotherm.policy.fields import FIELDS, complaint, model_values, operator_values


@pytest.mark.parametrize(
    ("name", "value", "fine"),
    [
        ("temperature", 0, True), ("temperature", 2, True), ("temperature", 2.0001, False),
        ("temperature", -0.1, False), ("temperature", math.nan, False), ("temperature", math.inf, False),
        ("temperature", "0.6", False), ("temperature", True, False), ("temperature", None, False),
        ("top_p", 0, False), ("top_p", 1e-9, True), ("top_p", 1, True), ("top_p", 1.1, False),
        ("top_k", -1, True), ("top_k", 0, True), ("top_k", -2, False), ("top_k", 40.0, False),
        ("min_p", 1, True), ("repetition_penalty", 0, False), ("presence_penalty", -2, True),
        ("max_tokens", 0, False), ("max_tokens", 1, True),
    ],
)  # fmt: skip
def test_ranges(name, value, fine):
    reason = complaint(FIELDS[name], value)
    assert (reason is None) is fine
    assert fine or name in reason


def test_every_protocol_default_is_in_its_range():
    for field in FIELDS.values():
        assert field.protocol is None or complaint(field, field.protocol) is None


def test_operator_values_are_copied_and_null_means_not_set():
    given = {"temperature": 0.6, "top_p": None}
    values = operator_values(given)
    assert values == {"temperature": 0.6}
    values["temperature"] = 1
    assert given["temperature"] == 0.6


@pytest.mark.parametrize("given", [{"temperature": 9}, {"temperature": "hot"}, {"heat": 1}, {"seed": 3}])
def test_wrong_operator_values_name_the_setting_and_the_field(given):
    (name,) = given
    with pytest.raises(SetupError, match=rf"default_sampling.*{name}"):
        operator_values(given)


def test_a_model_s_file_gives_sampling_values_alone_and_bad_ones_are_told():
    values, skipped = model_values(
        {
            "do_sample": False, "eos_token_id": 2, "max_new_tokens": 7, "max_tokens": 7,
            "temperature": 0.8, "top_p": None, "top_k": "many", "min_p": 5,
        }
    )  # fmt: skip
    assert values == {"temperature": 0.8}
    assert [sentence.split(":")[0] for sentence in skipped] == ["generation_config"] * 2
    assert "top_k" in skipped[0]
    assert "min_p" in skipped[1]
