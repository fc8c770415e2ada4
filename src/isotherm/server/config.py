"""What the server needs to know, already loaded and checked by whoever starts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Settings of the HTTP side.

    Args:
        served_model_name: the name that clients use; None takes the backend's.
        default_sampling: the operator's sampling defaults, field by field; null means not set.
        api_keys: any one of them opens the API; empty means no keys are asked for.
        strict: refuse unknown request fields with 400 instead of warning.
        max_body_bytes: larger request bodies are refused with 413 while they are read.
        request_timeout: seconds that a request may take, reading its body included.
        drain_timeout: seconds that running requests get when the server is asked to stop.
        settings_digest: stands for all effective settings, so that a stale process can be told by its health.
        keepalive: seconds of silence after which a stream sends a comment.
    """

    served_model_name: str | None = None
    default_sampling: Mapping[str, Any] = field(default_factory=dict)
    api_keys: tuple[str, ...] = ()
    strict: bool = False
    max_body_bytes: int = 4 * 1024 * 1024
    request_timeout: float = 600.0
    drain_timeout: float = 30.0
    settings_digest: str | None = None
    keepalive: float = 10.0
