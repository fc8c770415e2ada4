"""Errors that reach a person: each says what is wrong, why, and what to do next."""

from __future__ import annotations


class IsothermError(Exception):
    """Root of all errors that Isotherm raises on purpose."""


class SetupError(IsothermError):
    """The process cannot start or go on (bad model file, busy port, bad setting). Exit code 2."""


class RequestError(IsothermError):
    """One request is refused; the server turns it into an OpenAI error envelope.

    Args:
        message: what, why and what to do, for the client's developer.
        status: HTTP status.
        kind: the envelope's `type`.
        param: the offending field, if one can be named.
        code: stable machine-readable word, for example ``context_length_exceeded``.
        retry_after: seconds a client should wait, sent as ``Retry-After``.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.kind = kind
        self.param = param
        self.code = code
        self.retry_after = retry_after


class EngineDied(IsothermError):
    """The engine process ended while it was needed; carries its last words."""
