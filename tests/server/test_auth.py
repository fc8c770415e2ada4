"""API keys: what they guard, what they leave open."""

from __future__ import annotations

import pytest

from support.serving import CHAT, HI, in_process

GUARDED = [
    ("POST", CHAT), ("POST", "/v1/completions"), ("GET", "/v1/models"), ("GET", "/v1/models/m"),
    ("GET", "/v1/policy"), ("POST", "/tokenize"), ("POST", "/detokenize"), ("GET", "/v1/nowhere"),
]  # fmt: skip
OPEN = ["/", "/docs", "/openapi.json", "/health/live", "/health/ready", "/metrics", "/pages/chat.js"]
KEYS = ("first-key", "zweiter-schlüssel")


@pytest.mark.parametrize(("method", "path"), GUARDED)
@pytest.mark.parametrize(
    "sent",
    [None, "", "first-key", "Bearer", "Bearer ", "Bearer first-ke", "Bearer first-keyy", "Basic first-key", "Bearer ü"],
)
async def test_without_a_key_there_is_no_entry(method, path, sent):
    headers = [] if sent is None else [(b"authorization", sent.encode())]
    async with in_process(api_keys=KEYS) as http:
        answer = await http.request(method, path, headers=headers)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "first" not in answer.text


@pytest.mark.parametrize("sent", ["Bearer first-key", "bearer first-key", "Bearer zweiter-schlüssel"])
async def test_any_of_the_keys_opens(sent):
    async with in_process(api_keys=KEYS) as http:
        headers = [(b"authorization", sent.encode()), (b"content-type", b"application/json")]
        answer = await http.post(CHAT, json=HI, headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize("path", OPEN)
async def test_pages_health_and_metrics_stay_open(path):
    async with in_process(api_keys=KEYS) as http:
        answer = await http.get(path)
    assert answer.status_code == 200
    assert all(key not in answer.text for key in KEYS)


async def test_without_keys_any_header_is_welcome():
    async with in_process() as http:
        assert (await http.post(CHAT, json=HI, headers={"authorization": "Bearer x"})).status_code == 200


async def test_refused_visits_are_counted_by_route_and_code():
    async with in_process(api_keys=KEYS) as http:
        await http.post(CHAT, json=HI)
        text = (await http.get("/metrics")).text
    assert f'isotherm_http_requests_total{{model="m",route="{CHAT}",status="401"}} 1.0' in text
    assert 'isotherm_refused_requests_total{code="invalid_api_key",model="m"} 1.0' in text
