"""What ``isotherm serve`` says when it is ready: model, machine, effective defaults with origins, URL."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from isotherm.base.sampling import Resolved
from isotherm.policy.resolve import resolve
from isotherm.server.context import Services
from isotherm.settings.load import Settings


def facts(services: Services, settings: Settings, url: str, seconds: float) -> dict[str, Any]:
    """Everything there is to say, by name, in the order in which people want it."""
    info = services.backend.info
    return {
        "model": services.model_name,
        "context": f"{info.max_model_len} tokens",
        **info.details,
        "defaults": sampling_line(resolve({}, services.operator, services.model)),
        "access": f"{len(services.config.api_keys)} API keys" if services.config.api_keys else "open, no API keys",
        "settings": settings.digest(),
        "loaded in": f"{seconds:.1f} s",
        "url": url,
    }


def sampling_line(values: Mapping[str, Resolved]) -> str:
    """Effective sampling values of a request that sets none, each with who decided it."""
    return ", ".join(f"{name} {json.dumps(item.value)} ({item.origin.value})" for name, item in values.items())


def show(entries: Mapping[str, Any]) -> None:
    """One aligned line a fact, on stderr."""
    width = max(map(len, entries))
    for name, value in entries.items():
        print(f"  {name:<{width}}  {value}", file=sys.stderr)
    print(f"\nChat page: {entries['url']}/    OpenAI base URL: {entries['url']}/v1", file=sys.stderr, flush=True)
