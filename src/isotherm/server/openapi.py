"""The OpenAPI document. Routes read their own bodies, so their request schemas are added here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.routing import Route

from isotherm.server.schemas.answer import ErrorBody
from isotherm.server.schemas.base import Body

Responses = dict[int | str, dict[str, Any]]
_REF = "#/components/schemas/{model}"
_REFUSALS = (400, 401, 404, 408, 413, 415, 429, 500, 503, 504)


def paths_of(router: APIRouter) -> list[str]:
    """The path templates of a router."""
    return [route.path for route in router.routes if isinstance(route, Route)]


def refusals(*statuses: int) -> Responses:
    """Documents answers that carry the error object."""
    return {status: {"model": ErrorBody, "description": HTTPStatus(status).phrase} for status in statuses}


def json_answer(model: type[BaseModel], *statuses: int) -> Responses:
    """Documents a JSON answer of a route that builds its own response."""
    return {status: {"model": model, "description": HTTPStatus(status).phrase} for status in statuses or (200,)}


def json_route(request: type[Body], answer: type[BaseModel]) -> dict[str, Any]:
    """Keywords for a route that reads ``request`` with ``read_body`` and answers with ``answer``."""
    schema = {"schema": {"$ref": _REF.format(model=request.__name__)}}
    return {
        "responses": refusals(*_REFUSALS) | json_answer(answer),
        "openapi_extra": {"requestBody": {"required": True, "content": {"application/json": schema}}},
    }


def generation_route(request: type[Body], answer: type[BaseModel]) -> dict[str, Any]:
    """The same for a route that can also stream."""
    route = json_route(request, answer)
    # Left without a type: tools disagree whether a stream's schema means the text or each event.
    stream = {"schema": {"description": "When stream is true: chunks as server-sent events, ended by [DONE]."}}
    route["responses"][200]["content"] = {"text/event-stream": stream}
    return route


def document(app: FastAPI, requests: Sequence[type[Body]]) -> Mapping[str, Any]:
    """The document of ``app`` with the schemas of ``requests``."""
    found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    _, schemas = models_json_schema([(model, "validation") for model in requests], ref_template=_REF)
    found.setdefault("components", {}).setdefault("schemas", {}).update(schemas["$defs"])
    return found
