"""Every refusal leaves as the OpenAI error object: {"error": {"message", "type", "param", "code"}}."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from isotherm.base.errors import RequestError

SERVER_ERROR = "server_error"


def error_object(error: RequestError) -> dict[str, dict[str, str | None]]:
    """The envelope as plain data; also the payload of an error event inside a stream."""
    return {
        "error": {
            "message": error.message,
            "type": error.kind,
            "param": error.param,
            "code": error.code,
        }
    }


def error_response(error: RequestError) -> Response:
    """The envelope as an HTTP response with the headers that belong to its status."""
    headers = {}
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    if error.status in (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.REQUEST_TIMEOUT):
        # The rest of the body was not read, so the connection cannot carry another request.
        headers["connection"] = "close"
    return Response(msgspec.json.encode(error_object(error)), error.status, headers, "application/json")


def engine_failure(message: str) -> RequestError:
    """An answer that could not be completed for a reason on our side."""
    return RequestError(message, status=500, kind=SERVER_ERROR, code="engine_failure")


def internal_error(request_id: str) -> RequestError:
    """What a client hears of a defect of ours; the log has the rest under the same id."""
    return RequestError(
        f"The server failed on this request. Its log has the cause under request id {request_id}.",
        status=500,
        kind=SERVER_ERROR,
        code="internal_error",
    )


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Handler of the router's own 404 and 405."""
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.NOT_FOUND:
        message = f"There is no route {request.url.path}. See /docs for the routes of this server."
        refusal = RequestError(message, status=404, code="route_not_found")
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "another method")
        message = f"{request.url.path} does not answer {request.method}; use {allowed}."
        refusal = RequestError(message, status=405, code="method_not_allowed")
    else:
        refusal = RequestError(str(error.detail), status=error.status_code)
    response = error_response(refusal)
    response.headers.update(error.headers or {})
    return response
