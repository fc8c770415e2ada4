"""POST /v1/chat/completions."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from isotherm.base.request import ChatPrompt
from isotherm.policy.fields import PROTOCOL
from isotherm.server.body import read_body
from isotherm.server.context import services_of
from isotherm.server.job import make_job
from isotherm.server.openapi import generation_route
from isotherm.server.routes.generate import respond
from isotherm.server.schemas.chat import ChatCompletion, ChatRequest
from isotherm.server.shapes import ChatShape

router = APIRouter()


@router.post("/v1/chat/completions", **generation_route(ChatRequest, ChatCompletion))
async def chat_completions(request: Request) -> Response:
    """Answer a chat, whole or as a stream of server-sent events."""
    services = services_of(request)
    body = await read_body(request, ChatRequest)
    logprobs = body.wanted_logprobs()
    job = make_job(services, body, [chat_prompt(body)], prefix="chatcmpl", protocol=PROTOCOL, logprobs=logprobs)
    return await respond(request, job, lambda _: ChatShape(job, logprobs=logprobs is not None))


def chat_prompt(body: ChatRequest) -> ChatPrompt:
    """The messages as the backend takes them."""
    return ChatPrompt(
        [message.plain() for message in body.messages],
        template_kwargs=body.chat_template_kwargs or {},
        add_generation_prompt=body.add_generation_prompt is not False,
    )
