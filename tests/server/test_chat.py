"""The chat route, whole and streamed."""

from __future__ import annotations

import json

import httpx

from isotherm.server.app import create_app
from isotherm.server.config import ServerConfig
from support.scripted_backend import ScriptedBackend


def client(backend=None, **config):
    app = create_app(backend or ScriptedBackend(), ServerConfig(**config))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


HI = {"messages": [{"role": "user", "content": "Hi"}]}


async def test_whole():
    async with client() as http:
        answer = await http.post("/v1/chat/completions", json=HI)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == "Hello world."
    print(answer.json(), answer.headers)


async def test_streamed():
    async with client() as http:
        answer = await http.post("/v1/chat/completions", json=HI | {"stream": True})
    print(answer.text)
    assert answer.text.endswith("data: [DONE]\n\n")
    assert json
