"""What every route works with: the backend, the settings, the policy, the metrics, the lifecycle."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from isotherm import __version__
from isotherm.base.backend import Backend
from isotherm.monitor.exporter import EngineCollector
from isotherm.monitor.registry import Metrics
from isotherm.policy.fields import model_values, operator_values
from isotherm.server.config import ServerConfig
from isotherm.server.lifecycle import Lifecycle


@dataclass(frozen=True, slots=True)
class Services:
    """Made once by ``create_app``; ``operator`` and ``model`` are checked sampling values."""

    backend: Backend
    config: ServerConfig
    metrics: Metrics
    lifecycle: Lifecycle
    model_name: str
    operator: Mapping[str, Any]
    model: Mapping[str, Any]
    skipped_model_values: tuple[str, ...]
    started: int
    """Seconds since the epoch when the server was put together."""


def make_services(backend: Backend, config: ServerConfig) -> Services:
    """Checks the operator's defaults (SetupError names what is wrong) and reads the model's."""
    name = config.served_model_name or backend.info.name
    model, skipped = model_values(backend.info.generation_config)
    metrics = Metrics(name)
    metrics.gauge("build_info", version=__version__).set(1)
    metrics.registry.register(EngineCollector(name, backend.stats))
    return Services(
        backend=backend,
        config=config,
        metrics=metrics,
        lifecycle=Lifecycle(),
        model_name=name,
        operator=operator_values(config.default_sampling),
        model=model,
        skipped_model_values=tuple(skipped),
        started=int(time.time()),
    )


def services_of(request: Request) -> Services:
    """The services of the application that this request came to."""
    services: Services = request.app.state.services
    return services
