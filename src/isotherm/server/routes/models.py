"""GET /v1/models and /v1/models/{id}."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request

from isotherm.server.context import Services, services_of
from isotherm.server.job import check_model
from isotherm.server.openapi import refusals
from isotherm.server.schemas.models import ModelCard, ModelList

router = APIRouter()


def _card(services: Services) -> dict[str, Any]:
    info = services.backend.info
    return {
        "id": services.model_name,
        "object": "model",
        "created": info.created,
        "owned_by": "isotherm",
        "max_model_len": info.max_model_len,
        "details": dict(info.details),
    }


@router.get("/v1/models", response_model=ModelList, responses=refusals(401, 503))
async def list_models(request: Request) -> dict[str, Any]:
    """The served model, as a list."""
    return {"object": "list", "data": [_card(services_of(request))]}


@router.get("/v1/models/{model_id:path}", response_model=ModelCard, responses=refusals(401, 404, 503))
async def show_model(request: Request, model_id: str) -> dict[str, Any]:
    """The served model, if that is its name. Names may contain slashes."""
    services = services_of(request)
    check_model(services, model_id)
    return _card(services)
