"""Who decides a value: request > operator > model > protocol, field by field."""

from __future__ import annotations

from types import MappingProxyType

from hypothesis import given
from hypothesis import strategies as st

from isotherm.base.sampling import Origin, Resolved
from isotherm.policy.fields import FIELDS, PROTOCOL
from isotherm.policy.resolve import candidates, resolve

_levels = st.dictionaries(st.sampled_from(sorted(FIELDS)), st.none() | st.sampled_from([0, 0.0, 0.5, 1, 7]))


def test_every_field_falls_back_on_the_protocol():
    assert resolve({}, {}, {}) == {name: Resolved(PROTOCOL[name], Origin.PROTOCOL) for name in FIELDS}


def test_zero_is_a_value_and_null_is_none():
    values = resolve({"temperature": 0, "top_p": None}, {"temperature": 0.6, "top_p": 0.9}, {"top_k": 40})
    assert values["temperature"] == Resolved(0, Origin.REQUEST)
    assert values["top_p"] == Resolved(0.9, Origin.OPERATOR)
    assert values["top_k"] == Resolved(40, Origin.MODEL)
    assert resolve({"temperature": 0.0}, {"temperature": 0.6}, {})["temperature"] == Resolved(0.0, Origin.REQUEST)


def test_a_value_equal_to_the_default_is_still_the_client_s():
    assert resolve({"top_p": 1.0}, {"top_p": 0.9}, {})["top_p"] == Resolved(1.0, Origin.REQUEST)


def test_a_route_may_have_its_own_protocol_default():
    assert resolve({}, {}, {}, PROTOCOL | {"max_tokens": 16})["max_tokens"] == Resolved(16, Origin.PROTOCOL)


@given(_levels, _levels, _levels)
def test_the_first_level_that_has_a_value_wins_and_nothing_is_changed(request, operator, model):
    frozen = [MappingProxyType(dict(level)) for level in (request, operator, model)]
    values = resolve(*frozen)
    for name in FIELDS:
        offered = [level[name] for level in frozen if level.get(name) is not None]
        assert values[name].value == (offered or [PROTOCOL[name]])[0]
        ranking = candidates(name, *frozen)
        assert ranking[0] == values[name]
        assert [each.value for each in ranking] == [*offered, PROTOCOL[name]]
    assert [dict(level) for level in frozen] == [request, operator, model]
