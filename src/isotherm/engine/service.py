"""A built engine behind a socket: commands in, answers out, until told to stop."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import NamedTuple

from isotherm.base.backend import Loaded
from isotherm.base.errors import RequestError, SetupError
from isotherm.base.outcome import Finish, FinishReason, Usage
from isotherm.engine.loop import Engine
from isotherm.engine.messages import Abort, Fatal, Loading, Output, Piece, Ready, Request, Shutdown, Start, Submit
from isotherm.engine.options import EngineOptions
from isotherm.engine.wire import EngineConnection, PeerGone

EXIT_SETUP = 2
EXIT_FAILED = 3


class Built(NamedTuple):
    """A loaded engine and what to tell people about it."""

    engine: Engine
    details: dict[str, object]


Build = Callable[[EngineOptions, Loaded], Built]


def run(connection: EngineConnection, build: Build) -> int:
    """Build the engine as the first message says, then serve until told to stop; returns an exit code."""
    try:
        (start,) = connection.receive(None)
        if not isinstance(start, Start):
            raise TypeError(f"the first message must be Start, not {type(start).__name__}")
        built = build(start.options, lambda done, total: connection.send(Loading(done, total)))
        connection.send(Ready(built.engine.limits, built.details))
        serve(built.engine, connection, check_when_idle=start.options.debug_integrity)
    except PeerGone:
        return 0
    except SetupError as error:
        return _give_up(connection, Fatal(str(error), setup=True), EXIT_SETUP)
    except Exception as error:  # the last line of defence: the server must learn why
        traceback.print_exc()
        return _give_up(connection, Fatal(f"{type(error).__name__}: {error}"), EXIT_FAILED)
    return 0


def serve(engine: Engine, connection: EngineConnection, *, check_when_idle: bool = False) -> None:
    """Step while there is work, obeying commands between steps; sleep on the socket otherwise."""
    while True:
        refused: list[Piece] = []
        for command in connection.receive(0 if engine.has_work else None):
            if isinstance(command, Shutdown):
                return
            refused += _obey(engine, command)
        pieces = engine.step() if engine.has_work else []
        if refused or pieces or not engine.has_work:
            connection.send(Output(refused + pieces, engine.stats()))
        if check_when_idle and not engine.has_work:
            engine.check_integrity()


def _obey(engine: Engine, command: Request) -> list[Piece]:
    if isinstance(command, Abort):
        for sequence in command.sequences:
            engine.abort(sequence)
    elif isinstance(command, Submit):
        try:
            engine.submit(command)
        except RequestError as error:
            finish = Finish(FinishReason.ERROR, Usage(len(command.tokens), 0), error=error.message)
            return [Piece(command.sequence, finish=finish)]
    return []


def _give_up(connection: EngineConnection, last_words: Fatal, code: int) -> int:
    try:
        connection.send(last_words)
    except PeerGone:
        print(f"isotherm engine: {last_words.message}", file=sys.stderr)
    return code
