"""A generation request after policy: the turns to run, the values that apply, and what to tell the client."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from isotherm.base.backend import Backend, Capability, Generation
from isotherm.base.errors import RequestError
from isotherm.base.request import Prompt, Turn
from isotherm.base.sampling import Origin, Resolved, SamplingParams
from isotherm.policy.limits import Clamp, fit
from isotherm.policy.resolve import resolve
from isotherm.server.context import Services
from isotherm.server.fields import Warning, review
from isotherm.server.schemas.generate import GenerateBody


@dataclass(slots=True)
class Job:
    """One request's sequences: ``turns`` are ordered by prompt, then by choice (``n`` each).

    ``values`` are the effective sampling values; ``max_tokens`` becomes final in ``open``, when the
    backend has told the length of the prompts.
    """

    id: str
    model: str
    created: int
    n: int
    turns: Sequence[Turn]
    values: dict[str, Resolved]
    warnings: list[Warning]
    stream: bool
    include_usage: bool
    clamps: list[Clamp] = field(default_factory=list)

    async def open(self, backend: Backend) -> list[Generation]:
        """Queues every turn, all or none.

        Raises:
            RequestError: the backend refuses one (prompt too long, queue full); the others are aborted.
        """
        async with AsyncExitStack() as undo:
            opened = []
            for turn in self.turns:
                opened.append(await backend.generate(turn))
                undo.push_async_callback(opened[-1].abort)
            self._settle_max_tokens([generation.prompt_tokens for generation in opened], backend.info.max_model_len)
            undo.pop_all()
        return opened

    def _settle_max_tokens(self, prompt_tokens: list[int], max_model_len: int) -> None:
        asked = self.values["max_tokens"]
        fitted = [fit(tokens, max_model_len, asked.value) for tokens in prompt_tokens[:: self.n]]
        self.clamps = [clamp for _, clamp in fitted if clamp is not None]
        self.values["max_tokens"] = Resolved(max(used for used, _ in fitted), asked.origin)

    def sampling_report(self) -> dict[str, dict[str, Any]]:
        """Effective values with their origins; the header and the answer's ``isotherm`` object carry it."""
        return {name: {"value": item.value, "origin": item.origin.value} for name, item in self.values.items()}

    def report(self) -> dict[str, Any]:
        """The answer's ``isotherm`` object."""
        return {
            "sampling": self.sampling_report(),
            "greedy": self.turns[0].sampling.greedy,
            "clamped": [asdict(clamp) for clamp in self.clamps],
            "warnings": [asdict(warning) for warning in self.warnings],
        }


async def abort_all(generations: Sequence[Generation]) -> None:
    """Aborts each; ones that ended already do not mind."""
    for generation in generations:
        await generation.abort()


def make_job(
    services: Services,
    body: GenerateBody,
    prompts: Sequence[Prompt],
    *,
    prefix: str,
    protocol: Mapping[str, Any],
    logprobs: int | None,
    prompt_logprobs: int | None = None,
) -> Job:
    """Checks the model name and the unknown fields, resolves the sampling values, and makes the turns.

    Args:
        prefix: of the answer's id, for example ``chatcmpl``.
        protocol: the route's defaults of last resort.
        logprobs: rivals wanted beside each generated token; None for no log-probabilities.
        prompt_logprobs: the same for prompt tokens.
    """
    check_model(services, body.model)
    warnings = review(body, strict=services.config.strict)
    values = resolve(body.sampling_values(), services.operator, services.model, protocol)
    values["top_k"] = replace(values["top_k"], value=max(values["top_k"].value, 0))
    values["seed"] = _seed(body)
    params = _params(body, values, services.backend.info.max_model_len, logprobs, prompt_logprobs)
    _check_capabilities(services.backend, params, body)
    identifier = f"{prefix}-{secrets.token_hex(12)}"
    n = body.n or 1
    return Job(
        id=identifier,
        model=services.model_name,
        created=int(time.time()),
        n=n,
        turns=[
            Turn(f"{identifier}-{place}-{choice}", prompt, params, choice)
            for place, prompt in enumerate(prompts)
            for choice in range(n)
        ],
        values=values,
        warnings=warnings,
        stream=bool(body.stream),
        include_usage=bool(body.stream_options and body.stream_options.include_usage),
    )


def check_model(services: Services, name: str | None) -> None:
    """Passes for the served model and for no name.

    Raises:
        RequestError: 404 with code ``model_not_found``.
    """
    if name is not None and name != services.model_name:
        shown = name if len(name) <= 100 else name[:100] + "..."
        raise RequestError(
            f"The model {shown!r} does not exist here; this server serves {services.model_name!r}.",
            status=404,
            param="model",
            code="model_not_found",
        )


def _seed(body: GenerateBody) -> Resolved:
    """The client's seed, or one drawn here so that the answer can be repeated (32 bits: exact in every JSON reader)."""
    if body.seed is not None:
        return Resolved(body.seed, Origin.REQUEST)
    return Resolved(secrets.randbits(32), Origin.PROTOCOL)


def _params(
    body: GenerateBody,
    values: Mapping[str, Resolved],
    max_model_len: int,
    logprobs: int | None,
    prompt_logprobs: int | None,
) -> SamplingParams:
    max_tokens = values["max_tokens"].value
    min_tokens = body.min_tokens or 0
    if max_tokens is not None and min_tokens > max_tokens:
        raise RequestError(
            f"min_tokens is {min_tokens}, but max_tokens is {max_tokens}; lower the one or raise the other.",
            param="min_tokens",
            code="invalid_value",
        )
    chosen = {name: item.value for name, item in values.items() if name != "max_tokens"}
    return SamplingParams(
        **chosen,
        logit_bias={int(token): bias for token, bias in (body.logit_bias or {}).items()},
        stop=body.stops(),
        stop_token_ids=tuple(body.stop_token_ids or ()),
        min_tokens=min_tokens,
        # The backend stops at the end of the context whatever this says, so "no limit" is the whole context.
        max_tokens=max_model_len if max_tokens is None else min(max_tokens, max_model_len),
        ignore_eos=bool(body.ignore_eos),
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
    )


def _check_capabilities(backend: Backend, params: SamplingParams, body: GenerateBody) -> None:
    needed = {
        Capability.LOGPROBS: ("logprobs", params.logprobs is not None),
        Capability.PROMPT_LOGPROBS: ("echo", params.prompt_logprobs is not None),
        Capability.SEED: ("seed", body.seed is not None),
    }
    for capability, (param, wanted) in needed.items():
        if wanted and capability not in backend.capabilities:
            message = f"{param}: this backend cannot give {capability.value}; leave the field out."
            raise RequestError(message, param=param, code="unsupported_parameter")
