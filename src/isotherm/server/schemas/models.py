"""GET /v1/models: answers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel


class ModelCard(BaseModel):
    """The served model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int
    details: dict[str, Any]


class ModelList(BaseModel):
    """One entry: a server serves one model."""

    object: Literal["list"]
    data: list[ModelCard]
