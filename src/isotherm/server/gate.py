"""The outermost layer: request ids, API keys, the closed door while draining, one log line and count a request."""

from __future__ import annotations

import logging
import re
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from isotherm.base.errors import EngineDied, RequestError
from isotherm.server.auth import ApiKeys
from isotherm.server.context import Services
from isotherm.server.errors import engine_failure, error_response, internal_error
from isotherm.server.lifecycle import shutting_down
from isotherm.server.meter import clock
from isotherm.server.supervise import ClientGone

log = logging.getLogger("isotherm.access")
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_GONE = 499
"""Status in logs and metrics of a request whose client left before the answer."""

PROTECTED = ("/v1/", "/tokenize", "/detokenize")
"""Paths behind the API keys. Pages, health and metrics (counts without content) stay open."""


class Gate:
    """ASGI middleware. It sees every request first and every response last."""

    def __init__(self, app: ASGIApp, services: Services, paths: frozenset[str]) -> None:
        """``paths`` are those of the routes, for counting requests that never get to one."""
        self._app = app
        self._services = services
        self._paths = paths
        self._keys = ApiKeys(services.config.api_keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        visit = _Visit(scope, send)
        active = self._services.metrics.gauge("http_requests_active")
        active.inc()
        try:
            await self._enter(visit, scope, receive)
        finally:
            active.dec()
            self._record(visit, scope)

    async def _enter(self, visit: _Visit, scope: Scope, receive: Receive) -> None:
        try:
            self._admit(scope)
            await self._app(scope, receive, visit.send)
        except ClientGone:
            visit.status = visit.status or _GONE
        except RequestError as error:
            self._services.metrics.count("refused_requests_total", code=error.code or "other")
            await error_response(error)(scope, receive, visit.send)
        except EngineDied as error:
            await error_response(engine_failure(f"The engine is gone: {error}"))(scope, receive, visit.send)
        except Exception:
            # The edge of the program: whatever went wrong, the client gets our envelope and the log the traceback.
            log.exception("a request failed", extra={"request_id": visit.id})
            if visit.status:
                raise
            await error_response(internal_error(visit.id))(scope, receive, visit.send)

    def _admit(self, scope: Scope) -> None:
        if not scope["path"].startswith(PROTECTED):
            return
        authorization = Headers(scope=scope).get("authorization")
        self._keys.check(authorization.encode("latin-1") if authorization is not None else None)
        if self._services.lifecycle.draining:
            raise shutting_down()

    def _record(self, visit: _Visit, scope: Scope) -> None:
        unrouted = scope["path"] if scope["path"] in self._paths else "unmatched"
        route = scope["route"].path if "route" in scope else unrouted
        self._services.metrics.count("http_requests_total", route=route, status=str(visit.status))
        log.info(
            "%s %s",
            scope["method"],
            scope["path"],
            extra={
                "status": visit.status,
                "milliseconds": round((clock() - visit.started) * 1000, 1),
                "request_id": visit.id,
            },
        )


class _Visit:
    """One request on its way through: its id, its start, its status once that is sent."""

    def __init__(self, scope: Scope, send: Send) -> None:
        sent = Headers(scope=scope).get("x-request-id", "")
        self.id = sent if _ID.fullmatch(sent) else secrets.token_hex(16)
        self.started = clock()
        self.status = 0
        self._send = send
        scope["state"] = {**scope.get("state", {}), "request_id": self.id, "started": self.started}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message)["x-request-id"] = self.id
        await self._send(message)
