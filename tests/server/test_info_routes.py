"""Models, health, policy, metrics, documents: what a server says about itself."""

from __future__ import annotations

import time

import pytest

from isotherm.base.effort import EffortTexts
from isotherm.base.errors import SetupError
from isotherm.base.outcome import Delta, Finish, FinishReason, Usage
from isotherm.base.stats import Stats
from isotherm.server.app import create_app
from isotherm.server.config import ServerConfig
from support.scripted_backend import ScriptedBackend, piece
from support.serving import CHAT, COMPLETIONS, HI, in_process


async def test_the_served_name_is_the_only_name():
    async with in_process(served_model_name="org/name") as http:
        listed = (await http.get("/v1/models")).json()
        shown = await http.get("/v1/models/org/name")
        answer = await http.post(CHAT, json=HI | {"model": "org/name"})
        other = await http.post(CHAT, json=HI | {"model": "m"})
    assert listed["object"] == "list"
    assert listed["data"] == [shown.json()]
    assert (shown.json()["id"], shown.json()["object"], shown.json()["max_model_len"]) == ("org/name", "model", 1000)
    assert answer.json()["model"] == "org/name"
    assert other.status_code == 404


async def test_health_tells_a_broken_backend_from_a_living_process():
    backend = ScriptedBackend()
    async with in_process(backend) as http:
        ready = (await http.get("/health/ready")).json()
        assert (ready["status"], ready["reason"]) == ("ready", None)
        assert abs(ready["started"] - time.time()) < 60
        backend.broken = "the engine was killed"
        broken = await http.get("/health/ready")
        assert (await http.get("/health/live")).status_code == 200
        assert 'isotherm_ready{model="m"} 0.0' in (await http.get("/metrics")).text
    assert broken.status_code == 503
    assert (broken.json()["status"], broken.json()["reason"]) == ("not ready", "the engine was killed")


async def test_the_policy_shows_winners_losers_and_the_fate_of_fields():
    backend = ScriptedBackend(generation_config={"temperature": 0.8, "top_k": 40})
    async with in_process(backend, default_sampling={"temperature": 0.6}) as http:
        table = (await http.get("/v1/policy")).json()
    assert (
        table["sampling"]["temperature"]
        | {
            "value": 0.6,
            "origin": "operator",
            "beaten": [{"value": 0.8, "origin": "model"}, {"value": 1.0, "origin": "protocol"}],
        }
        == table["sampling"]["temperature"]
    )
    assert table["sampling"]["top_k"]["origin"] == "model"
    assert table["sampling"]["min_p"]["beaten"] == []
    assert table["order"] == ["request", "operator", "model", "protocol"]
    assert "tools" in table["fields"]["refused"]
    assert "store" in table["fields"]["ignored"]


async def test_the_policy_shows_what_effort_words_mean():
    async with in_process(ScriptedBackend(effort_texts=EffortTexts("april", "because"))) as http:
        efforts = (await http.get("/v1/policy")).json()["efforts"]
    async with in_process() as http:
        assert (await http.get("/v1/policy")).json()["efforts"] is None
    assert (efforts["table"], efforts["reason"], efforts["default"]) == ("april", "because", "high")
    assert efforts["words"]["high"] == "thinking, no text"
    assert efforts["words"]["none"] == "thinking off"
    assert efforts["words"]["max"] == "thinking, the text 'Absolute maximum'"


@pytest.mark.parametrize("values", [{"temperature": 3}, {"temprature": 0.6}, {"top_p": "0.9"}, {"seed": 1}])
def test_wrong_operator_values_stop_the_start(values):
    with pytest.raises(SetupError, match=next(iter(values))):
        create_app(ScriptedBackend(), ServerConfig(default_sampling=values))


async def test_metrics_count_what_happened():
    backend = ScriptedBackend()
    backend.snapshot = Stats(running=1, blocks_total=100, blocks_active=7, blocks_cached=30, prompt_tokens_total=5)
    async with in_process(backend) as http:
        await http.post(CHAT, json=HI | {"temperature": 0})
        await http.post(COMPLETIONS, json={"prompt": "ab", "stream": True})
        await http.post(CHAT, json=HI | {"n": 0})
        await http.get("/nowhere/5")
        text = (await http.get("/metrics")).text
    lines = text.splitlines()
    for line in (
        'isotherm_http_requests_total{model="m",route="/v1/chat/completions",status="200"} 1.0',
        'isotherm_http_requests_total{model="m",route="/v1/chat/completions",status="400"} 1.0',
        'isotherm_http_requests_total{model="m",route="unmatched",status="404"} 1.0',
        'isotherm_temperature_origin_total{greedy="true",model="m",origin="request"} 1.0',
        'isotherm_temperature_origin_total{greedy="false",model="m",origin="protocol"} 1.0',
        'isotherm_finished_choices_total{model="m",reason="stop"} 2.0',
        'isotherm_refused_requests_total{code="invalid_value",model="m"} 1.0',
        'isotherm_generated_tokens_total{model="m"} 6.0',
        'isotherm_time_to_first_token_seconds_count{channel="content",model="m",route="/v1/completions"} 1.0',
        'isotherm_time_per_output_token_seconds_count{model="m",route="/v1/chat/completions"} 1.0',
        'isotherm_kv_blocks_active{model="m"} 7.0',
        'isotherm_kv_blocks_cached{model="m"} 30.0',
        'isotherm_kv_blocks_free{model="m"} 63.0',
        'isotherm_engine_prompt_tokens_total{model="m"} 5.0',
        'isotherm_ready{model="m"} 1.0',
    ):
        assert line in lines


async def test_the_wait_in_the_engines_queue_is_observed_once_a_choice():
    def script(turn):
        yield piece(turn, "a")
        waited = None if turn.choice == 2 else 0.2 + turn.choice
        yield Delta(finish=Finish(FinishReason.STOP, Usage(0, 1), queue_seconds=waited))

    async with in_process(ScriptedBackend(script)) as http:
        await http.post(CHAT, json=HI | {"n": 3})
        lines = (await http.get("/metrics")).text.splitlines()
    assert 'isotherm_queue_seconds_count{model="m"} 2.0' in lines
    assert 'isotherm_queue_seconds_sum{model="m"} 1.4' in lines


async def test_the_openapi_document_knows_requests_and_answers():
    async with in_process() as http:
        document = (await http.get("/openapi.json")).json()
    chat = document["paths"][CHAT]["post"]
    assert chat["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/ChatRequest")
    assert {"application/json", "text/event-stream"} <= chat["responses"]["200"]["content"].keys()
    schemas = document["components"]["schemas"]
    assert {"ChatRequest", "ChatCompletion", "CompletionRequest", "ErrorBody", "Policy"} <= schemas.keys()
    assert schemas["ChatRequest"]["properties"]["temperature"]["anyOf"][0] == {
        "type": "number",
        "minimum": 0.0,
        "maximum": 2.0,
    }
