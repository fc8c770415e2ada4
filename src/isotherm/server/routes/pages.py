"""GET / (chat), /docs, their files, and /openapi.json. Nothing is loaded from anywhere else."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

router = APIRouter(include_in_schema=False)
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


@cache
def _shipped() -> dict[str, bytes]:
    """The files of ``server/pages`` by name: the only ones that can be asked for."""
    folder = files("isotherm.server") / "pages"
    return {item.name: item.read_bytes() for item in folder.iterdir() if item.name.rpartition(".")[2] in _TYPES}


def _file(name: str) -> Response:
    if name not in _shipped():
        raise HTTPException(404)
    return Response(_shipped()[name], 200, _HEADERS, _TYPES[name.rpartition(".")[2]])


@router.get("/")
async def chat_page() -> Response:
    """Chat in the browser."""
    return _file("chat.html")


@router.get("/docs")
async def docs_page() -> Response:
    """The routes of this server, for people."""
    return _file("docs.html")


@router.get("/pages/{name}")
async def page_file(name: str) -> Response:
    """A script, style or picture of the pages."""
    return _file(name)


@router.get("/openapi.json")
async def openapi(request: Request) -> Response:
    """The routes of this server, for programs."""
    return JSONResponse(request.app.openapi())
