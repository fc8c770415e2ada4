"""Puts the application together: services, routes, the gate around them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException

from isotherm import __version__
from isotherm.base.backend import Backend
from isotherm.server.config import ServerConfig
from isotherm.server.context import make_services
from isotherm.server.errors import on_http_exception
from isotherm.server.gate import Gate
from isotherm.server.openapi import document, paths_of
from isotherm.server.routes import chat, completions, health, metrics, models, pages, policy, tokenize
from isotherm.server.schemas.chat import ChatRequest
from isotherm.server.schemas.completions import CompletionRequest
from isotherm.server.schemas.tokenize import DetokenizeRequest, TokenizeRequest

_ROUTERS = (chat, completions, models, tokenize, health, policy, metrics, pages)
_REQUESTS = (ChatRequest, CompletionRequest, TokenizeRequest, DetokenizeRequest)


class _Application(FastAPI):
    """Describes itself with the schemas of its requests."""

    def openapi(self) -> dict[str, Any]:
        self.openapi_schema = self.openapi_schema or dict(document(self, _REQUESTS))
        return self.openapi_schema


def create_app(backend: Backend, config: ServerConfig) -> FastAPI:
    """The server for a backend that is already started; whoever started it also closes it.

    ``app.state.services.lifecycle`` is told when the process shall stop.

    Raises:
        SetupError: the operator's sampling defaults are wrong.
    """
    app = _Application(
        title="Isotherm",
        version=__version__,
        description="OpenAI-compatible server. No field is silent: see `isotherm` in every answer.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    services = make_services(backend, config)
    app.state.services = services
    for routes in _ROUTERS:
        app.include_router(routes.router)
    app.add_exception_handler(HTTPException, on_http_exception)
    paths = frozenset(path for module in _ROUTERS for path in paths_of(module.router))
    app.add_middleware(Gate, services=services, paths=paths)
    return app
