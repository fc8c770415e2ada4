"""The command ``isotherm``: finds the verb, imports its module alone, and turns errors into exit codes.

Exit codes: 0 fine, 1 findings (a check or comparison found something), 2 could not run.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, cast

from isotherm import __version__
from isotherm.base.errors import IsothermError, SetupError
from isotherm.cli.extra import missing_extra
from isotherm.settings.load import nearest

EXIT_OK = 0
EXIT_CANNOT_RUN = 2

VERBS = MappingProxyType(
    {
        "serve": "serve a model through an OpenAI-compatible API",
        "chat": "talk to a server from the terminal",
        "models": "list, fetch and inspect models",
        "bench": "measure a server, or this machine's kernels",
    }
)
"""Verb to what it does. Each is a module of this room with ``register`` and ``run``."""


class Verb(Protocol):
    """What a verb's module offers."""

    def register(self, subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        """Add the verb's parser with its flags."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; gives the exit code. Data goes to stdout, talk to stderr."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except IsothermError as problem:
        print(f"isotherm: {problem}", file=sys.stderr)
        return EXIT_CANNOT_RUN
    except KeyboardInterrupt:
        print("isotherm: interrupted", file=sys.stderr)
        return EXIT_CANNOT_RUN
    except BrokenPipeError:
        _forget_stdout()
        return EXIT_OK
    except Exception as defect:  # the edge of the program: exit code 1 would mean "findings"
        if (missing := missing_extra(defect)) is not None:
            print(f"isotherm: {missing}", file=sys.stderr)
        else:
            traceback.print_exc()
        return EXIT_CANNOT_RUN


def _run(words: list[str]) -> int:
    name = next((word for word in words if not word.startswith("-")), None)
    if name is not None and name not in VERBS:
        raise SetupError(f"{name!r} is not a command.{nearest(name, VERBS)} Commands: {', '.join(VERBS)}.")
    parser = _parser(name)
    if name is None and not words:
        parser.print_help()
        return EXIT_OK
    args, unknown = parser.parse_known_args(words)
    if unknown:
        raise SetupError(_unknown(parser, words, unknown[0]))
    code = _verb(cast(str, name)).run(args)
    sys.stdout.flush()
    return code


def _parser(name: str | None) -> argparse.ArgumentParser:
    """A parser that knows all verbs by name, and the flags of ``name`` alone: the others stay unimported."""
    parser = argparse.ArgumentParser(
        "isotherm", description="Serve language models and see why they answer as they do."
    )
    parser.add_argument("--version", action="version", version=f"isotherm {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for verb, text in VERBS.items():
        if verb == name:
            _verb(verb).register(subparsers)
        else:
            subparsers.add_parser(verb, help=text)
    return parser


def _verb(name: str) -> Verb:
    return cast(Verb, importlib.import_module(f"isotherm.cli.{name}"))


def _unknown(parser: argparse.ArgumentParser, words: list[str], word: str) -> str:
    """What to say about a word that the command does not take: the nearest flag and where to read on."""
    for part in words:
        parser = _subcommands(parser).get(part, parser)
    flags = [flag for action in parser._actions for flag in action.option_strings]
    hint = nearest(word.split("=", maxsplit=1)[0], flags)
    return f"`{parser.prog}` does not take {word!r}.{hint} See `{parser.prog} --help`."


def _subcommands(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    groups = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return next((group.choices for group in groups), {})


def _forget_stdout() -> None:
    """The reader of our output left (for example ``| head``): say nothing more, also not at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
