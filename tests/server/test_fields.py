"""No field is silent: honoured, refused, ignored as documented, or reported."""

from __future__ import annotations

import pytest

from isotherm.server.fields import IGNORED, MAX_WARNINGS, REFUSED
from isotherm.server.schemas.chat import ChatRequest
from isotherm.server.schemas.completions import CompletionRequest
from support.serving import CHAT, COMPLETIONS, HI, in_process

BODIES = {CHAT: HI, COMPLETIONS: {"prompt": "Hi"}}


@pytest.mark.parametrize("route", BODIES)
async def test_every_refused_field_is_refused_on_both_routes_by_its_name(route):
    async with in_process() as http:
        for name in REFUSED:
            answer = await http.post(route, json=BODIES[route] | {name: {"any": "thing"}})
            error = answer.json().get("error", {})
            declared = name in (ChatRequest if route == CHAT else CompletionRequest).model_fields
            assert answer.status_code == 400, name
            assert error["param"].partition(".")[0] == name
            assert error["code"] == ("invalid_value" if declared else "unsupported_parameter")


async def test_values_that_mean_what_we_do_anyway_pass_without_a_word():
    async with in_process(strict=True) as http:
        for name, refusal in REFUSED.items():
            for neutral in (None, *refusal.neutral):
                answer = await http.post(CHAT, json=HI | {name: neutral})
                assert answer.status_code == 200, (name, neutral, answer.text)
                assert answer.json()["isotherm"]["warnings"] == []


@pytest.mark.parametrize(("name", "value"), [("use_beam_search", 0), ("echo", 0), ("length_penalty", True)])
async def test_neutral_values_are_compared_with_their_type(name, value):
    async with in_process() as http:
        assert (await http.post(CHAT, json=HI | {name: value})).status_code == 400


async def test_ignored_fields_pass_without_a_word_whatever_they_hold():
    async with in_process(strict=True) as http:
        answer = await http.post(CHAT, json=HI | {name: {"a": [1]} for name in IGNORED})
    assert answer.status_code == 200
    assert answer.json()["isotherm"]["warnings"] == []


def test_the_lists_do_not_overlap():
    declared = ChatRequest.model_fields.keys() & CompletionRequest.model_fields.keys()
    assert not IGNORED & REFUSED.keys()
    assert not IGNORED & declared
    assert not REFUSED.keys() & declared


async def test_unknown_fields_inside_objects_are_reported_with_their_place():
    body = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {}}], "nmae": "A"}],
        "stream": False,
    }
    async with in_process() as http:
        warnings = (await http.post(CHAT, json=body)).json()["isotherm"]["warnings"]
        refused = await http.post(CHAT, json=body | {"messages": [*body["messages"], {"role": "user"}]})
    assert {warning["param"] for warning in warnings} == {
        "messages[0].nmae",
        "messages[0].content[0].cache_control",
    }
    (misspelt,) = [warning for warning in warnings if warning["param"].endswith("nmae")]
    assert "Did you mean name?" in misspelt["message"]
    assert refused.json()["error"]["param"] == "messages[1]"


async def test_warnings_are_few_and_short_whatever_is_sent():
    async with in_process() as http:
        answer = await http.post(CHAT, json=HI | {f"{'x' * 500}{number}": 1 for number in range(500)})
    warnings = answer.json()["isotherm"]["warnings"]
    assert len(warnings) == MAX_WARNINGS
    assert all(len(warning["param"]) < 80 for warning in warnings)


async def test_warnings_reach_the_client_of_a_stream_and_the_metrics():
    async with in_process() as http:
        answer = await http.post(CHAT, json=HI | {"temprature": 1, "stream": True})
        metrics = (await http.get("/metrics")).text
    assert "Did you mean temperature?" in answer.text
    assert 'isotherm_warnings_total{model="m"} 1.0' in metrics
