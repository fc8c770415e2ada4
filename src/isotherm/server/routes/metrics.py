"""GET /metrics."""

from __future__ import annotations

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from isotherm.server.context import services_of
from isotherm.server.routes.health import why_not_ready

router = APIRouter()
_TEXT = {"text/plain": {"schema": {"type": "string"}}}


@router.get("/metrics", response_class=Response, responses={200: {"content": _TEXT, "description": "All series"}})
async def metrics(request: Request) -> Response:
    """All series in Prometheus' text format."""
    services = services_of(request)
    services.metrics.gauge("ready").set(why_not_ready(services) is None)
    return Response(services.metrics.expose(), media_type=CONTENT_TYPE_LATEST)
