"""GET /v1/policy."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request

from isotherm.base.effort import DEFAULT_WORD
from isotherm.base.sampling import GREEDY_BELOW, Origin
from isotherm.policy.fields import COMPLETIONS_MAX_TOKENS, FIELDS
from isotherm.policy.resolve import candidates
from isotherm.server.context import Services, services_of
from isotherm.server.fields import IGNORED, REFUSED
from isotherm.server.openapi import refusals
from isotherm.server.schemas.policy import Policy

router = APIRouter()
_ORDER = [Origin.REQUEST, Origin.OPERATOR, Origin.MODEL, Origin.PROTOCOL]


@router.get("/v1/policy", response_model=Policy, responses=refusals(401, 503))
async def policy(request: Request) -> dict[str, Any]:
    """The effective sampling values with origins and losers, and what happens to each request field."""
    services = services_of(request)
    return {
        "object": "isotherm.policy",
        "model": services.model_name,
        "max_model_len": services.backend.info.max_model_len,
        "order": [origin.value for origin in _ORDER],
        "sampling": {name: _row(services, name) for name in FIELDS},
        "protocol_by_route": {"/v1/completions": {"max_tokens": COMPLETIONS_MAX_TOKENS}},
        "skipped_model_values": list(services.skipped_model_values),
        "greedy_below": GREEDY_BELOW,
        "null": "counts as absent",
        "strict": services.config.strict,
        "efforts": _efforts(services),
        "fields": {
            "refused": {name: {"hint": rule.hint, "neutral": list(rule.neutral)} for name, rule in REFUSED.items()},
            "ignored": sorted(IGNORED),
        },
    }


def _efforts(services: Services) -> dict[str, Any] | None:
    texts = services.backend.info.effort_texts
    if texts is None:
        return None
    words = {word: effect.value for word, effect in texts.words.items()}
    return {"table": texts.table, "reason": texts.reason, "default": DEFAULT_WORD, "words": words}


def _row(services: Services, name: str) -> dict[str, Any]:
    winner, *losers = candidates(name, {}, services.operator, services.model)
    return {
        "value": winner.value,
        "origin": winner.origin.value,
        "range": FIELDS[name].range,
        "help": FIELDS[name].help,
        "beaten": [{"value": loser.value, "origin": loser.origin.value} for loser in losers],
    }
