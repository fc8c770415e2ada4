"""A tiny OpenAI-compatible server on uvicorn that streams canned answers over real HTTP."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route


def words_of(count):
    return [f"w{number} " for number in range(count)]


class Canned:
    """What the server does. ``usage`` False leaves usage out; ``text`` None answers numbered words, else repeats it."""

    def __init__(self, *, pause=0.0, reasoning=0, usage=True, text=None, refuse_every=0, key=None):
        self.pause = pause
        self.reasoning = reasoning
        self.usage = usage
        self.text = text
        self.refuse_every = refuse_every
        self.key = key
        self.bodies = []
        self.running = 0
        self.peak = 0
        self.cancelled = 0

    def app(self):
        return Starlette(
            routes=[Route("/v1/models", self.models), Route("/v1/chat/completions", self.chat, methods=["POST"])]
        )

    async def models(self, request: Request):
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            return JSONResponse({"error": {"message": "no key"}}, 401)
        return JSONResponse({"object": "list", "data": [{"id": "canned"}]})

    async def chat(self, request: Request):
        body = await request.json()
        self.bodies.append(body)
        if self.refuse_every and len(self.bodies) % self.refuse_every == 0:
            return JSONResponse({"error": {"message": "queue is full"}}, 429)
        return StreamingResponse(self.stream(body), media_type="text/event-stream")

    async def stream(self, body):
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            for event in self.events(body):
                await asyncio.sleep(self.pause)
                yield f"data: {json.dumps(event)}\r\n\r\n: keep-alive\n\n"
            yield "data: [DONE]\n\n"
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    def events(self, body):
        count = body["max_tokens"]
        pieces = words_of(count) if self.text is None else [self.text] * count
        yield {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
        for at, piece in enumerate(pieces):
            name = "reasoning_content" if at < self.reasoning else "content"
            yield {"choices": [{"index": 0, "delta": {name: piece}, "finish_reason": None}]}
        yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
        if self.usage:
            prompt = 10 + 2 * len(body["messages"][0]["content"].split())
            yield {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": count}}


@contextmanager
def serving(canned):
    """The base URL of a running server."""
    server = uvicorn.Server(uvicorn.Config(canned.app(), port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)
