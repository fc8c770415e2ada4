"""POST /v1/completions."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from isotherm.base.backend import Backend
from isotherm.base.request import TextPrompt, TokenPrompt
from isotherm.policy.fields import COMPLETIONS_MAX_TOKENS, PROTOCOL
from isotherm.server.body import read_body
from isotherm.server.context import services_of
from isotherm.server.job import make_job
from isotherm.server.openapi import generation_route
from isotherm.server.routes.generate import respond
from isotherm.server.routes.tokenize import check_ids
from isotherm.server.schemas.completions import Completion, CompletionRequest
from isotherm.server.shapes import CompletionShape

router = APIRouter()
_PROTOCOL = {**PROTOCOL, "max_tokens": COMPLETIONS_MAX_TOKENS}


@router.post("/v1/completions", **generation_route(CompletionRequest, Completion))
async def completions(request: Request) -> Response:
    """Continue raw text or token ids; with echo, logprobs and max_tokens 0, score them."""
    services = services_of(request)
    body = await read_body(request, CompletionRequest)
    prompts = [TextPrompt(item) if isinstance(item, str) else TokenPrompt(item) for item in body.prompts()]
    for prompt in prompts:
        if isinstance(prompt, TokenPrompt):
            check_ids(services.backend, prompt.ids, "prompt")
    job = make_job(
        services,
        body,
        prompts,
        prefix="cmpl",
        protocol=_PROTOCOL,
        logprobs=body.logprobs,
        prompt_logprobs=body.logprobs if body.echo else None,
    )
    echoes = [await _text(services.backend, prompt) for prompt in prompts] if body.echo else None
    wanted = body.logprobs is not None
    return await respond(
        request, job, lambda generations: CompletionShape(job, generations, logprobs=wanted, echoes=echoes)
    )


async def _text(backend: Backend, prompt: TextPrompt | TokenPrompt) -> str:
    return prompt.text if isinstance(prompt, TextPrompt) else await backend.detokenize(prompt.ids)
