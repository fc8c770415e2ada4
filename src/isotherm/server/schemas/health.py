"""GET /health/live and /health/ready: answers."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class Health(BaseModel):
    """``reason`` says why a server is not ready; ``settings`` and ``started`` tell a stale process from a new one."""

    status: Literal["live", "ready", "not ready"]
    reason: str | None
    settings: str | None = Field(description="Digest of the effective settings; `isotherm serve` prints it.")
    started: int = Field(description="Seconds since the epoch when the server started.")
