"""What ``isotherm serve`` says when it is ready: model, machine, effective defaults with origins, URL."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from isotherm.base.sampling import Resolved
from isotherm.policy.resolve import resolve
from isotherm.server.context import Services
from isotherm.settings.load import Settings

_ORDER = ("model", "architecture", "context", "dtype", "device", "kernels", "threads", "KV cache", "memory")


def facts(services: Services, settings: Settings, url: str, seconds: float) -> dict[str, Any]:
    """Everything there is to say, by name, in the order in which people want it."""
    info = services.backend.info
    return {
        "model": services.model_name,
        "context": f"{info.max_model_len} tokens",
        **info.details,
        "defaults": by_origin(resolve({}, services.operator, services.model)),
        "access": f"{len(services.config.api_keys)} API keys" if services.config.api_keys else "open, no API keys",
        "settings": settings.digest(),
        "loaded in": f"{seconds:.1f} s",
        "url": url,
    }


def by_origin(values: Mapping[str, Resolved]) -> dict[str, dict[str, Any]]:
    """Effective sampling values of a request that sets none, grouped by who decided them."""
    groups: dict[str, dict[str, Any]] = {}
    for name, item in values.items():
        groups.setdefault(item.origin.value, {})[name] = item.value
    return groups


def show(entries: Mapping[str, Any]) -> None:
    """One aligned line a fact, on stderr."""
    lines = readable(entries)
    width = max(map(len, lines))
    for name, value in lines.items():
        print(f"  {name:<{width}}  {value}", file=sys.stderr)
    print(f"\nChat page: {entries['url']}/    OpenAI base URL: {entries['url']}/v1", file=sys.stderr, flush=True)


def readable(entries: Mapping[str, Any]) -> dict[str, str]:
    """The facts as people want them: block counts as tokens, bytes as megabytes, names as words."""
    rest = dict(entries)
    lines = {}
    if {"blocks", "block_size", "kv_bytes"} <= rest.keys():
        blocks, size, total = rest.pop("blocks"), rest.pop("block_size"), rest.pop("kv_bytes")
        lines["KV cache"] = f"{blocks} blocks of {size} tokens, at most {_megabytes(total)}"
    for origin, values in rest.pop("defaults", {}).items():
        lines[f"{origin} defaults"] = ", ".join(f"{name} {_number(value)}" for name, value in values.items())
    for name, value in rest.items():
        words = "; ".join(map(str, value)) if isinstance(value, list) else str(value)
        shown = _megabytes(value) if name.endswith("_bytes") else words
        lines[name.removesuffix("_bytes").replace("_", " ")] = shown
    order = [name for name in _ORDER if name in lines]
    return {name: lines[name] for name in [*order, *(name for name in lines if name not in order)]}


def _number(value: float | None) -> str:
    return "as many as fit" if value is None else str(value)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
