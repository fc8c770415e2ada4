"""Cases of the kinds sampling-default and sampling-explicit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.cases import of_kind
from support.scripted_backend import ScriptedBackend
from support.serving import CHAT, in_process

LATER = {
    "092": "profiles by mode are the policy's second layer; one layer of operator defaults exists now",
    "093": "there is no upstream backend yet; the embedded engine has no defaults of its own",
}
NOT_OFFERED = {"/v1/responses": "not served yet", "/v1/messages": "not served yet"}
"""Endpoints of the cases that this server answers with 404 instead of with another default."""


def server_of(case: dict[str, Any]):
    server = case["input"]["server"]
    assert server.get("zero_policy", "honour") == "honour"
    backend = ScriptedBackend(generation_config=server.get("model_generation_config", {}))
    return in_process(backend, default_sampling=server["operator_defaults"])


async def answers(case: dict[str, Any]):
    async with server_of(case) as http:
        for request in case["input"]["requests"]:
            endpoint = request.get("endpoint", CHAT)
            answer = await http.post(endpoint, json=request["body"])
            if endpoint in NOT_OFFERED:
                assert answer.status_code == 404
            else:
                yield answer


def effective(answer) -> dict[str, Any]:
    """The values that the answer says were used; the header says the same."""
    sampling = answer.json()["isotherm"]["sampling"]
    assert json.loads(answer.headers["x-isotherm-sampling"]) == sampling
    return {name: item["value"] for name, item in sampling.items()}


def origins(answer) -> dict[str, str]:
    return {name: item["origin"] for name, item in answer.json()["isotherm"]["sampling"].items()}


@pytest.mark.parametrize("case", of_kind("sampling-default", without=LATER))
async def test_defaults(case):
    given = [answer async for answer in answers(case)]
    expected = case["expect"]["effective"]
    for place, answer in enumerate(given):
        values = expected[place] if isinstance(expected, list) else expected
        numbers = {name: value for name, value in values.items() if isinstance(value, int | float)}
        assert effective(answer) | numbers == effective(answer)
        source = values.get("source", {})
        assert origins(answer) | source == origins(answer)


@pytest.mark.parametrize("case", of_kind("sampling-explicit"))
async def test_explicit_values(case):
    given = [answer async for answer in answers(case)]
    expect = case["expect"]
    wanted = [int(str(status)[:3]) for status in expect.get("status", [200] * len(given))]
    assert [answer.status_code for answer in given] == wanted
    for answer in given:
        if answer.status_code == 400:
            error = answer.json()["error"]
            assert error["param"] in {"temperature", "top_p", "n"}
            assert error["param"] in error["message"]
    if "effective_temperature" in expect:
        assert [effective(answer)["temperature"] for answer in given] == expect["effective_temperature"]
        assert [answer.json()["isotherm"]["greedy"] for answer in given] == expect["greedy"]


async def test_tiny_temperatures_follow_the_one_rule_and_say_so():
    async with in_process() as http:
        for temperature, greedy in ((1e-12, True), (9e-6, True), (1e-5, False), (0.0, True), (2, False)):
            body = {"messages": [{"role": "user", "content": "x"}], "temperature": temperature}
            answer = await http.post(CHAT, json=body)
            assert answer.json()["isotherm"]["greedy"] is greedy
            assert effective(answer)["temperature"] == temperature


async def test_a_model_value_that_cannot_be_used_is_skipped_and_shown():
    backend = ScriptedBackend(
        generation_config={"temperature": "hot", "top_p": 0.9, "top_k": None, "max_new_tokens": 5}
    )
    async with in_process(backend) as http:
        answer = await http.post(CHAT, json={"messages": [{"role": "user", "content": "x"}]})
        table = (await http.get("/v1/policy")).json()
    assert effective(answer)["temperature"] == 1.0
    assert origins(answer) | {"temperature": "protocol", "top_p": "model", "max_tokens": "protocol"} == origins(answer)
    (sentence,) = table["skipped_model_values"]
    assert "temperature" in sentence
