"""``isotherm serve``: settings -> backend -> application -> HTTP server, and an orderly end in every case."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import logging
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING

from isotherm.base.errors import EngineDied, IsothermError, SetupError
from isotherm.cli.extra import require_engine
from isotherm.cli.flags import add_flags, settings_of
from isotherm.cli.listen import listen, url_of
from isotherm.cli.loading import Loading, Screen, screen_of
from isotherm.cli.log import configure
from isotherm.cli.transfer import transfer
from isotherm.model.catalog import CATALOG
from isotherm.model.fetch import cached_path, fetch
from isotherm.policy.fields import operator_values
from isotherm.settings.explain import explain
from isotherm.settings.keys import api_keys
from isotherm.settings.load import Settings

if TYPE_CHECKING:
    from isotherm.base.backend import Backend
    from isotherm.server.config import ServerConfig
    from isotherm.server.run import Server

log = logging.getLogger("isotherm.serve")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "serve", description="Serve a model through an OpenAI-compatible API.", allow_abbrev=False
    )
    parser.add_argument(
        "--explain", action="store_true", help="print every setting with its origin and what it beat, and stop"
    )
    add_flags(parser, "serve")


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop. 0 after an orderly stop, 2 when it could not start or the engine died."""
    settings = settings_of("serve", args)
    if args.explain:
        print(explain(settings))
        return 0
    configure(settings["log_format"], settings["log_level"])
    try:
        serve(settings, _embedded(settings))
    except IsothermError as problem:
        if settings["log_format"] != "json":
            raise
        # A collector of JSON lines shall not meet a plain one, least of all the one that matters.
        log.critical("%s", problem)
        return 2
    return 0


def serve(settings: Settings, backend: Backend) -> None:
    """Serve ``backend`` as the settings say, until told to stop.

    Raises:
        SetupError: it could not start.
        EngineDied: the backend failed while it served.
    """
    import uvloop  # noqa: PLC0415  only a real start pays for it

    config = _server_config(settings)
    listener = listen(settings["host"], settings["port"])
    _warn_if_open(listener, config)
    _fetch_if_absent(settings)
    with listener, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, suppress(asyncio.CancelledError):
        runner.run(_serve(settings, backend, config, listener))


def _fetch_if_absent(settings: Settings) -> None:
    """A model with a name that is not here yet is fetched with a progress bar; everything else opens as it is."""
    entry = CATALOG.get(settings["model"])
    if entry is None or cached_path(entry) is not None:
        return
    # Asked to stop, the download ends with us, not after us.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if settings["log_format"] == "json":
        log.info("fetching %s", entry.name)
        fetch(entry, offline=settings["offline"])
        return
    with transfer() as report:
        fetch(entry, offline=settings["offline"], progress=report)


async def _serve(settings: Settings, backend: Backend, config: ServerConfig, listener: socket.socket) -> None:
    start = time.perf_counter()
    _let_signals_cancel(asyncio.current_task())
    told = _telling(settings)
    loading = asyncio.ensure_future(backend.start(told.layers))
    try:
        await asyncio.sleep(0)
        # The engine's process loads torch meanwhile, so these imports cost no time of their own.
        from isotherm.cli import banner  # noqa: PLC0415
        from isotherm.server.app import create_app  # noqa: PLC0415
        from isotherm.server.run import Server  # noqa: PLC0415

        async with told.shown():
            await loading
        app = create_app(backend, config)
        server = Server(app)
        entries = banner.facts(app.state.services, settings, url_of(listener), time.perf_counter() - start)
        if settings["log_format"] == "json":
            log.info("ready", extra=entries)
        else:
            banner.show(entries)
        await _run(server, listener)
    finally:
        loading.cancel()
        await asyncio.wait([loading])
        await backend.close()


def _telling(settings: Settings) -> Loading:
    text = f"loading {settings['model']}"
    if settings["log_format"] != "json":
        return Loading(text, screen_of(sys.stderr))
    log.info(text)
    return Loading(text, Screen(log.info))


async def _run(server: Server, listener: socket.socket) -> None:
    await server.serve([listener])
    if server.failure is not None:
        raise EngineDied(server.failure)
    log.info("stopped")


def _let_signals_cancel(task: asyncio.Task[None] | None) -> None:
    """Until the server takes over: a stop while the model loads ends the start in order, a second one at once."""
    assert task is not None
    signals = 0

    def on_signal() -> None:
        nonlocal signals
        signals += 1
        if signals > 1:
            # A download cannot be cancelled; it resumes where it was.
            os._exit(2)
        log.info("stopping before the model is ready")
        task.cancel()

    for number in _SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, on_signal)


def _server_config(settings: Settings) -> ServerConfig:
    """Checked before anything slow happens."""
    from isotherm.server.config import ServerConfig  # noqa: PLC0415  not for --help

    try:
        operator_values(settings["default_sampling"])
    except SetupError as problem:
        where = settings.entry("default_sampling").winner.where
        raise SetupError(f"{where}: {str(problem).removeprefix('default_sampling: ')}") from None
    return ServerConfig(
        served_model_name=settings["served_model_name"],
        default_sampling=settings["default_sampling"],
        api_keys=api_keys(settings),
        strict=settings["strict"],
        max_body_bytes=settings["max_body_bytes"],
        request_timeout=settings["request_timeout"],
        drain_timeout=settings["drain_timeout"],
        settings_digest=settings.digest(),
    )


def _embedded(settings: Settings) -> Backend:
    require_engine()
    from isotherm.backends.embedded import EmbeddedBackend  # noqa: PLC0415  not for --help
    from isotherm.engine.options import EngineOptions  # noqa: PLC0415

    return EmbeddedBackend(EngineOptions(**{field.name: settings[field.name] for field in fields(EngineOptions)}))


def _warn_if_open(listener: socket.socket, config: ServerConfig) -> None:
    address = ipaddress.ip_address(listener.getsockname()[0])
    if not address.is_loopback and not config.api_keys:
        log.warning("anybody who reaches %s can use this server: set api_keys or api_key_file", url_of(listener))
