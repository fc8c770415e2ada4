"""The case files: inputs made after public reports, with what the right behaviour is."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "cases"


@cache
def all_cases() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json")))


def of_kind(*kinds: str, without: dict[str, str] | None = None) -> list[Any]:
    """Cases of the kinds as pytest parameters; ``without`` names those left to a later part, with the reason."""
    chosen = [case for case in all_cases() if case["kind"] in kinds and case["id"] not in (without or {})]
    return [pytest.param(case, id=f"{case['id']}-{case['name']}") for case in chosen]


def case(number: str) -> dict[str, Any]:
    (found,) = (case for case in all_cases() if case["id"] == number)
    return found
