"""What the contracts promise by themselves: the greedy rule, immutability, errors that carry their envelope."""

import dataclasses
import inspect

import pytest

from isotherm.base import errors
from isotherm.base.backend import Backend, Generation
from isotherm.base.block import BLOCK_SIZE
from isotherm.base.outcome import Delta, Finish, FinishReason, Usage
from isotherm.base.sampling import GREEDY_BELOW, Origin, Resolved, SamplingParams


@pytest.mark.parametrize(
    ("temperature", "greedy"), [(0.0, True), (GREEDY_BELOW / 2, True), (GREEDY_BELOW, False), (1.0, False)]
)
def test_the_greedy_rule(temperature, greedy):
    assert SamplingParams(temperature=temperature).greedy is greedy


@pytest.mark.parametrize("value", [SamplingParams(), Resolved(1, Origin.MODEL), Delta(), Usage(1, 2)])
def test_values_cannot_be_changed_by_whoever_gets_them(value):
    name = dataclasses.fields(value)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, name, None)


def test_every_error_on_purpose_has_one_root():
    found = [item for _, item in inspect.getmembers(errors, inspect.isclass) if item.__module__ == errors.__name__]
    assert all(issubclass(item, errors.IsothermError) for item in found)


def test_a_refusal_carries_its_envelope_and_reads_as_its_message():
    error = errors.RequestError("too long", param="messages", code="context_length_exceeded", retry_after=2)
    assert str(error) == "too long"
    assert (error.status, error.kind, error.param) == (400, "invalid_request_error", "messages")
    assert (error.code, error.retry_after) == ("context_length_exceeded", 2)


def test_three_reasons_reach_a_client():
    assert {reason.value for reason in FinishReason} == {"stop", "length", "tool_calls", "abort", "error"}
    assert Finish(FinishReason.STOP, Usage(1, 1)).matched is None


@pytest.mark.parametrize("contract", [Backend, Generation])
def test_a_contract_cannot_be_used_half_implemented(contract):
    with pytest.raises(TypeError, match="abstract"):
        contract()


def test_blocks_divide_the_prefill_grid():
    assert 512 % BLOCK_SIZE == 0
