"""POST /tokenize and /detokenize."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from isotherm.base.backend import Backend
from isotherm.base.errors import RequestError
from isotherm.base.request import ChatPrompt, TextPrompt
from isotherm.server.body import read_body
from isotherm.server.context import Services, services_of
from isotherm.server.fields import review
from isotherm.server.job import check_model
from isotherm.server.logprobs import token_text
from isotherm.server.openapi import json_route
from isotherm.server.routes.chat import check_tools
from isotherm.server.schemas.tokenize import (
    DetokenizeRequest,
    DetokenizeResponse,
    TokenizeRequest,
    TokenizeResponse,
)

router = APIRouter()
B = TypeVar("B", TokenizeRequest, DetokenizeRequest)


@router.post("/tokenize", **json_route(TokenizeRequest, TokenizeResponse))
async def tokenize(request: Request) -> Response:
    """Token ids of a text or a chat, exactly those that a generation would use."""
    services, body = await _checked(request, TokenizeRequest)
    check_tools(services, body.tools)
    backend = services.backend
    tokens = await backend.tokenize(_prompt(body))
    texts = [token_text(backend.token_bytes(token)) for token in tokens] if body.return_token_strs else None
    answer = {
        "count": len(tokens),
        "max_model_len": backend.info.max_model_len,
        "tokens": tokens,
        "token_strs": texts,
    }
    return Response(msgspec.json.encode(answer), media_type="application/json")


@router.post("/detokenize", **json_route(DetokenizeRequest, DetokenizeResponse))
async def detokenize(request: Request) -> Response:
    """The text that token ids stand for."""
    services, body = await _checked(request, DetokenizeRequest)
    check_ids(services.backend, body.tokens, "tokens")
    text = await services.backend.detokenize(body.tokens)
    return Response(msgspec.json.encode({"prompt": text}), media_type="application/json")


def check_ids(backend: Backend, ids: Sequence[int], param: str) -> None:
    """Passes when the vocabulary has every id.

    Raises:
        RequestError: 400 that names the first one it does not have.
    """
    size = backend.info.vocab_size
    wrong = next((token for token in ids if token >= size), None)
    if wrong is not None:
        message = f"{param}: token id {wrong} does not exist; the vocabulary has {size} tokens (0 to {size - 1})."
        raise RequestError(message, param=param, code="invalid_value")


async def _checked(request: Request, schema: type[B]) -> tuple[Services, B]:
    """The body, its model name and its unknown fields checked."""
    services = services_of(request)
    body = await read_body(request, schema)
    check_model(services, body.model)
    review(body, strict=services.config.strict)
    return services, body


def _prompt(body: TokenizeRequest) -> TextPrompt | ChatPrompt:
    if body.messages is None:
        return TextPrompt(body.prompt or "")
    return ChatPrompt(
        [message.plain() for message in body.messages],
        template_kwargs=body.chat_template_kwargs or {},
        add_generation_prompt=body.add_generation_prompt is not False,
        tools=[tool.plain() for tool in body.tools or ()],
    )
