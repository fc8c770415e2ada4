"""GET /health/live and /health/ready: answers."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel


class Health(BaseModel):
    """``reason`` says why a server is not ready."""

    status: Literal["live", "ready", "not ready"]
    reason: str | None
