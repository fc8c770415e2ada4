"""Find each setting's value: flag, then environment, then file, then built-in.

Every value given is checked, also one that loses: a broken line in a file is a surprise waiting for
the day when the flag that hides it is dropped.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from isotherm.base.errors import SetupError
from isotherm.settings.file import read_file
from isotherm.settings.table import BY_NAME, ENV_PREFIX, OTHER_ENVIRONMENT, Setting, of_verb

_SERVICE_LINKS = ("ISOTHERM_SERVICE_", "ISOTHERM_PORT_")
"""Kubernetes puts such variables into every container when a service is called isotherm."""


class Source(StrEnum):
    """Who gave a value, strongest first."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    FILE = "file"
    BUILT_IN = "built-in"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A value that somebody gave. ``where`` names the flag, variable or file and key for people."""

    value: Any
    source: Source
    where: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting with every value given for it, strongest first; the built-in one is always last."""

    setting: Setting
    candidates: tuple[Candidate, ...]

    @property
    def winner(self) -> Candidate:
        return self.candidates[0]

    @property
    def losers(self) -> tuple[Candidate, ...]:
        return self.candidates[1:]


class Settings:
    """The settings of a run: ``settings["port"]`` is the effective value, ``entry("port")`` its history."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = {entry.setting.name: entry for entry in entries}

    def __getitem__(self, name: str) -> Any:
        return self._entries[name].winner.value

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def digest(self) -> str:
        """Twelve hex digits that change with any effective value but a secret: two servers agree or they do not."""
        shown = {entry.setting.name: entry.setting.show(entry.winner.value) for entry in self}
        return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:12]

    def entry(self, name: str) -> Entry:
        """The setting with its winner and losers."""
        return self._entries[name]


def load(verb: str, flags: Mapping[str, object], env: Mapping[str, str]) -> Settings:
    """The settings of ``verb``.

    Args:
        verb: name of a command, for example ``serve``.
        flags: setting name to what was given on the command line; None stands for not given.
        env: the environment.

    Raises:
        SetupError: a value is bad, or a name in the environment or the file is unknown.
    """
    given = {name: raw for name, raw in flags.items() if raw is not None}
    variables = _ours(env)
    path = _file_path(given, variables)
    lines = _known_keys(read_file(path), path) if path is not None else {}
    return Settings(
        Entry(setting, tuple(_candidates(setting, given, variables, lines, path))) for setting in of_verb(verb)
    )


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name, as a sentence with a leading space, or nothing."""
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" Did you mean {match[0]}?" if match else ""


def _candidates(
    setting: Setting,
    flags: Mapping[str, object],
    env: Mapping[str, str],
    lines: Mapping[str, object],
    path: Path | None,
) -> Iterator[Candidate]:
    if setting.name in flags:
        yield _candidate(setting, flags[setting.name], Source.FLAG, setting.option)
    if setting.env in env:
        yield _candidate(setting, env[setting.env], Source.ENVIRONMENT, setting.env)
    if setting.name in lines:
        yield _candidate(setting, lines[setting.name], Source.FILE, f"{path}: {setting.name}")
    yield Candidate(setting.default, Source.BUILT_IN, "built-in")


def _candidate(setting: Setting, raw: object, source: Source, where: str) -> Candidate:
    if raw is None or raw == "":
        raise SetupError(f"{where} is empty: give it a value ({setting.kind.metavar}) or remove it.")
    try:
        return Candidate(setting.kind.parse(raw), source, where)
    except ValueError as problem:
        reason = "has a value that cannot be used (not shown: it is a secret)" if setting.secret else str(problem)
        raise SetupError(f"{where} {reason}.{_link_hint(where, raw)}") from None


def _link_hint(where: str, raw: object) -> str:
    if where == "ISOTHERM_PORT" and str(raw).startswith("tcp://"):
        return " Kubernetes set it for a service called isotherm: use enableServiceLinks: false, or rename the service."
    return ""


def _ours(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that are ours; an unknown one with our prefix is refused."""
    known = {setting.env for setting in BY_NAME.values()} | set(OTHER_ENVIRONMENT)
    ours = {name: value for name, value in env.items() if name.startswith(ENV_PREFIX)}
    for name in ours:
        if name not in known and not name.startswith(_SERVICE_LINKS):
            raise SetupError(f"{name} in the environment is not a setting.{nearest(name, known)} Remove or rename it.")
    return ours


def _file_path(flags: Mapping[str, object], env: Mapping[str, str]) -> Path | None:
    setting = BY_NAME["config"]
    raw = flags.get("config", env.get(setting.env))
    if raw is None:
        return None
    where = setting.option if "config" in flags else setting.env
    return Path(_candidate(setting, raw, Source.FLAG, where).value)


def _known_keys(lines: Mapping[str, object], path: Path | None) -> Mapping[str, object]:
    known = [setting.name for setting in BY_NAME.values() if setting.in_file]
    for key in lines:
        if key not in known:
            raise SetupError(f"{path}: {key!r} is not a setting.{nearest(key, known)}")
    return lines
