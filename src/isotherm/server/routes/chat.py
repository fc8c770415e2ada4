"""POST /v1/chat/completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from isotherm.base.errors import RequestError
from isotherm.base.request import ChatPrompt
from isotherm.policy.fields import PROTOCOL
from isotherm.server.body import read_body
from isotherm.server.context import Services, services_of
from isotherm.server.job import make_job
from isotherm.server.openapi import generation_route
from isotherm.server.routes.generate import respond
from isotherm.server.schemas.chat import ChatCompletion, ChatRequest
from isotherm.server.schemas.tools import NamedTool, Tool
from isotherm.server.shapes import ChatShape

router = APIRouter()


@router.post("/v1/chat/completions", **generation_route(ChatRequest, ChatCompletion))
async def chat_completions(request: Request) -> Response:
    """Answer a chat, whole or as a stream of server-sent events."""
    services = services_of(request)
    body = await read_body(request, ChatRequest)
    check_tools(services, body.tools)
    logprobs = body.wanted_logprobs()
    job = make_job(services, body, [chat_prompt(body)], prefix="chatcmpl", protocol=PROTOCOL, logprobs=logprobs)
    return await respond(request, job, lambda _: ChatShape(job, logprobs=logprobs is not None))


def check_tools(services: Services, tools: Sequence[Tool] | None) -> None:
    """Passes when none are offered, or the model's calls can be told from its text.

    Raises:
        RequestError: 400.
    """
    if tools and services.backend.info.call_format is None:
        raise RequestError(
            f"tools: this server cannot tell calls of {services.model_name!r} from its text; leave the field out. "
            "Calls of DeepSeek-V4 are understood.",
            param="tools",
            code="unsupported_parameter",
        )


def chat_prompt(body: ChatRequest) -> ChatPrompt:
    """The messages as the backend takes them."""
    return ChatPrompt(
        [message.plain() for message in body.messages],
        template_kwargs=body.chat_template_kwargs or {},
        add_generation_prompt=body.add_generation_prompt is not False,
        tools=[] if body.tool_choice == "none" else [tool.plain() for tool in body.tools or ()],
        tool_choice=_choice(body.tool_choice),
        parallel_calls=body.parallel_tool_calls is not False,
    )


def _choice(choice: str | NamedTool | None) -> str | dict[str, Any]:
    if isinstance(choice, NamedTool):
        return {"type": "function", "function": {"name": choice.function.name}}
    return choice or "auto"
