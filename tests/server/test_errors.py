"""Whatever is wrong, the answer is the OpenAI error object."""

from __future__ import annotations

import pytest

from support.serving import CHAT, HI, in_process

JSON = {"content-type": "application/json"}


def error_of(answer):
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    (error,) = answer.json().values()
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"]
    assert isinstance(error["type"], str)
    return error


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "route_not_found"),
        ("POST", "/v1/responses", 404, "route_not_found"),
        ("GET", "/pages/../app.py", 404, "route_not_found"),
        ("GET", "/pages/app.py", 404, "route_not_found"),
        ("GET", CHAT, 405, "method_not_allowed"),
        ("POST", "/v1/models", 405, "method_not_allowed"),
        ("DELETE", "/health/live", 405, "method_not_allowed"),
        ("PATCH", "/", 405, "method_not_allowed"),
        ("GET", "/v1/models/other", 404, "model_not_found"),
    ],
)
async def test_routes(method, path, status, code):
    async with in_process() as http:
        answer = await http.request(method, path)
    assert answer.status_code == status
    assert error_of(answer)["code"] == code
    if status == 405:
        assert answer.headers["allow"]


DEEP = b'{"messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
BAD_JSON = {
    "empty": b"",
    "cut": b'{"messages": [',
    "nan": b'{"messages":[{"role":"user","content":"x"}],"temperature":NaN}',
    "infinity": b'{"messages":[{"role":"user","content":"x"}],"temperature":-Infinity}',
    "out of range": b'{"messages":[{"role":"user","content":"x"}],"temperature":1e999}',
    "invalid utf-8": b'{"messages":[{"role":"user","content":"\xff\xfe"}]}',
    "utf-16": '{"messages":[]}'.encode("utf-16"),
    "lone surrogate": b'{"messages":[{"role":"user","content":"\\ud800"}]}',
    "deep": DEEP,
    "deeper": b"[" * 3_000_000,
    "endless number": b'{"max_tokens":' + b"9" * 100_000 + b"}",
    "null byte": b'{"messages":\0}',
    "two values": b"{}{}",
}
NOT_AN_OBJECT = {"list": b"[]", "null": b"null", "text": b'"x"', "number": b"3"}


@pytest.mark.parametrize("raw", [*BAD_JSON.values(), *NOT_AN_OBJECT.values()], ids=[*BAD_JSON, *NOT_AN_OBJECT])
async def test_bodies_that_are_no_json_object(raw):
    async with in_process() as http:
        answer = await http.post(CHAT, content=raw, headers=JSON)
    assert answer.status_code == 400
    assert error_of(answer)["code"] == "invalid_json"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        JSON | {"content-encoding": "gzip"},
    ],
)
async def test_other_media_types(headers):
    async with in_process() as http:
        request = http.build_request("POST", CHAT, content=b"{}", headers=headers)
        answer = await http.send(request)
    assert answer.status_code == 415
    assert error_of(answer)["code"] == "unsupported_media_type"


async def test_json_with_a_charset_is_json():
    async with in_process() as http:
        headers = {"content-type": "application/json; charset=utf-8"}
        answer = await http.post(CHAT, content=b'{"messages":[{"role":"user","content":"x"}]}', headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_body_over_the_limit_is_refused_while_it_is_read(chunked):
    read = 0

    async def pieces():
        nonlocal read
        for _ in range(1000):
            read += 10_000
            yield b" " * 10_000

    async with in_process(max_body_bytes=50_000) as http:
        content = pieces() if chunked else b" " * 10_000_000
        answer = await http.post(CHAT, content=content, headers=JSON)
    assert answer.status_code == 413
    assert error_of(answer)["code"] == "request_too_large"
    assert answer.headers["connection"] == "close"
    assert "50000" in answer.json()["error"]["message"]
    assert read <= 70_000


async def test_a_body_of_exactly_the_limit_passes():
    raw = b'{"messages":[{"role":"user","content":"x"}]}'
    async with in_process(max_body_bytes=len(raw)) as http:
        assert (await http.post(CHAT, content=raw, headers=JSON)).status_code == 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": "0.6"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"temperature": -1e-300}, "temperature"),
        ({"temperature": 1e300}, "temperature"),
        ({"top_k": 1.5}, "top_k"),
        ({"top_k": -2}, "top_k"),
        ({"top_k": 10**30}, "top_k"),
        ({"top_p": 1.01}, "top_p"),
        ({"min_p": -0.1}, "min_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"presence_penalty": 2.1}, "presence_penalty"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -5}, "max_tokens"),
        ({"max_tokens": 10**40}, "max_tokens"),
        ({"max_completion_tokens": 1.0}, "max_completion_tokens"),
        ({"min_tokens": 20, "max_tokens": 10}, "min_tokens"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"seed": 2**63}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"stop": ""}, "stop"),
        ({"stop": [""]}, "stop[0]"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"stop": 5}, "stop"),
        ({"stop_token_ids": [-1]}, "stop_token_ids[0]"),
        ({"logit_bias": {"x": 1}}, "logit_bias.x"),
        ({"logit_bias": {"5": 101}}, "logit_bias.5"),
        ({"logit_bias": []}, "logit_bias"),
        ({"logit_bias": {str(number): 1 for number in range(10_001)}}, "logit_bias"),
        ({"stream": "true"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": "yes"}}, "stream_options.include_usage"),
        ({"ignore_eos": "false"}, "ignore_eos"),
        ({"chat_template_kwargs": "x"}, "chat_template_kwargs"),
        ({"model": 5}, "model"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
         "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "x", "tool_calls": [{}]}]}, "messages[0]"),
    ],
)  # fmt: skip
async def test_a_wrong_value_is_named(fields, param):
    async with in_process() as http:
        answer = await http.post(CHAT, json=HI | fields)
    assert answer.status_code == 400
    error = error_of(answer)
    assert (error["param"], error["type"]) == (param, "invalid_request_error")
    assert param in error["message"]


@pytest.mark.parametrize("name", ["", "M", "does-not-exist", "x" * 5000, "../m"])
async def test_another_model_is_not_found(name):
    async with in_process() as http:
        answer = await http.post(CHAT, json=HI | {"model": name})
    assert answer.status_code == 404
    error = error_of(answer)
    assert (error["param"], error["code"]) == ("model", "model_not_found")
    assert "'m'" in error["message"]
    assert len(error["message"]) < 300
