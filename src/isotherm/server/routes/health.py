"""GET /health/live and /health/ready."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from isotherm.server.context import Services, services_of
from isotherm.server.openapi import json_answer
from isotherm.server.schemas.health import Health

router = APIRouter()


@router.get("/health/live", responses=json_answer(Health))
async def live(request: Request) -> Response:
    """The process answers. A supervisor that gets no answer here should restart it."""
    return _answer(services_of(request), 200, "live", None)


@router.get("/health/ready", responses=json_answer(Health, 200, 503))
async def ready(request: Request) -> Response:
    """New requests are welcome. 503 with the reason while draining or when the engine is gone."""
    services = services_of(request)
    reason = why_not_ready(services)
    return _answer(services, 503, "not ready", reason) if reason else _answer(services, 200, "ready", None)


def why_not_ready(services: Services) -> str | None:
    """None when new requests are welcome."""
    if services.lifecycle.draining:
        return "the server is shutting down"
    return services.backend.failure()


def _answer(services: Services, status: int, word: str, reason: str | None) -> Response:
    health = {
        "status": word,
        "reason": reason,
        "settings": services.config.settings_digest,
        "started": services.started,
    }
    return Response(msgspec.json.encode(health), status, media_type="application/json")
