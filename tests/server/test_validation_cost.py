"""A few megabytes of nonsense cost a fraction of a second, not half a minute."""

from __future__ import annotations

import time

import pytest

from support.serving import CHAT, COMPLETIONS, in_process

_CHAT = b'{"messages":[{"role":"user","content":"a"}],'
_MANY = 200_000
NONSENSE = {
    "objects as prompt": (COMPLETIONS, b'{"prompt":[' + b"{}," * _MANY + b"{}]}"),
    "lists as prompt": (COMPLETIONS, b'{"prompt":[' + b"[5]," * _MANY + b"[5]]}"),
    "messages without anything": (CHAT, b'{"messages":[' + b"{}," * _MANY + b"{}]}"),
    "endless messages": (CHAT, b'{"messages":[' + b'{"role":"user","content":""},' * _MANY + b"{}]}"),
    "numbers as stops": (CHAT, _CHAT + b'"stop":[' + b"1," * _MANY + b"1]}"),
    "negative ids": (CHAT, _CHAT + b'"stop_token_ids":[' + b"-1," * _MANY + b"-1]}"),
    "words as ids": (CHAT, _CHAT + b'"logit_bias":{' + b",".join(b'"x%d":0' % i for i in range(_MANY)) + b"}}"),
}
UNKNOWN = _CHAT + b",".join(b'"a%d":0' % i for i in range(_MANY)) + b"}"


@pytest.mark.parametrize(("route", "raw"), NONSENSE.values(), ids=NONSENSE)
async def test_nonsense_is_refused_quickly(route, raw):
    async with in_process(max_body_bytes=20_000_000) as http:
        began = time.process_time()
        answer = await http.post(route, content=raw, headers={"content-type": "application/json"})
        spent = time.process_time() - began
    assert answer.status_code == 400
    assert len(answer.content) < 1000
    assert spent < 2


async def test_a_heap_of_unknown_fields_is_reported_quickly():
    async with in_process() as http:
        began = time.process_time()
        answer = await http.post(CHAT, content=UNKNOWN, headers={"content-type": "application/json"})
        spent = time.process_time() - began
    assert answer.status_code == 200
    assert spent < 3


async def test_deep_template_arguments_are_refused():
    nested: dict[str, object] = {}
    for _ in range(40):
        nested = {"a": [nested]}
    body = {"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": nested}
    async with in_process() as http:
        answer = await http.post(CHAT, json=body)
    assert answer.status_code == 400
    assert "deep" in answer.json()["error"]["message"]
