"""Reads a request's body: bounded while it arrives, JSON only, an object only, validated with presence kept."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import msgspec
from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from isotherm.base.errors import RequestError
from isotherm.server.context import services_of
from isotherm.server.schemas.base import Body
from isotherm.server.supervise import ClientGone
from isotherm.server.validation import refusal

B = TypeVar("B", bound=Body)


async def read_body(request: Request, model: type[B]) -> B:
    """The body as ``model``.

    Raises:
        RequestError: 400 (not JSON, not an object, a wrong field), 408, 413 or 415.
        ClientGone: the connection closed while the body arrived.
    """
    config = services_of(request).config
    _check_headers(request, config.max_body_bytes)
    try:
        async with asyncio.timeout(config.request_timeout):
            raw = await _read(request, config.max_body_bytes)
    except ClientDisconnect:
        raise ClientGone from None
    except TimeoutError:
        raise RequestError("The request body did not arrive in time.", status=408, code="request_timeout") from None
    data = decode_object(raw)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise refusal(error) from None


def decode_object(raw: bytes) -> dict[str, Any]:
    """JSON text to a dict. NaN, infinities, broken UTF-8 and deep nesting are refused."""
    try:
        data = msgspec.json.decode(raw)
    except RecursionError:
        raise _malformed("it is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _malformed(str(error)) from None
    if not isinstance(data, dict):
        raise RequestError("The body must be a JSON object.", code="invalid_json")
    return data


def _malformed(why: str) -> RequestError:
    return RequestError(f"The body is not valid JSON: {why}.", code="invalid_json")


def _check_headers(request: Request, limit: int) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" or request.headers.get("content-encoding", "identity") != "identity":
        # A web page may send other types to any host without asking; requiring JSON keeps it out.
        raise RequestError(
            "Send the body as plain JSON with the header 'Content-Type: application/json'.",
            status=415,
            code="unsupported_media_type",
        )
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)


async def _read(request: Request, limit: int) -> bytes:
    received = bytearray()
    async for chunk in request.stream():
        received += chunk
        if len(received) > limit:
            raise _too_large(limit)
    return bytes(received)


def _too_large(limit: int) -> RequestError:
    return RequestError(
        f"The request body is larger than {limit} bytes, the limit of this server (max_body_bytes).",
        status=413,
        code="request_too_large",
    )
