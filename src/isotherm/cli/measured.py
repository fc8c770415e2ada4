"""A measurement of the endpoint that the flags name, with its progress on stderr."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from isotherm.bench.http import Endpoint
from isotherm.cli.flags import settings_of
from isotherm.cli.numbers import positive
from isotherm.cli.progress import Progress

Plan = TypeVar("Plan")
Report = TypeVar("Report")


def measured(
    args: argparse.Namespace,
    plan: Plan,
    measure: Callable[[Endpoint, Plan, Callable[[str], None]], Coroutine[Any, Any, Report]],
) -> Report:
    """What ``measure`` reports of the endpoint; the progress line is gone afterwards."""
    settings = settings_of("bench", args)
    endpoint = Endpoint(settings["url"], settings["api_key"], positive("--timeout", args.timeout))
    progress = Progress()
    try:
        return asyncio.run(measure(endpoint, plan, progress.show))
    finally:
        progress.clear()
