"""Command-line flags made from the settings table."""

from __future__ import annotations

import argparse
import os

from isotherm.settings.kinds import Switch
from isotherm.settings.load import Settings, load
from isotherm.settings.table import Setting, of_verb


def add_flags(parser: argparse.ArgumentParser, verb: str) -> None:
    """Give ``parser`` a flag for every setting of ``verb``; values stay text, the settings room reads them."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for setting in of_verb(verb):
        if setting.flag:
            group = groups.setdefault(setting.group, parser.add_argument_group(setting.group))
            _add(group, setting)


def settings_of(verb: str, args: argparse.Namespace) -> Settings:
    """The settings of ``verb`` from parsed flags, the environment and the file that they name."""
    flags = {setting.name: getattr(args, setting.name, None) for setting in of_verb(verb)}
    return load(verb, flags, os.environ)


def _add(group: argparse._ArgumentGroup, setting: Setting) -> None:
    text = f"{setting.help} [{setting.show(setting.default)}; {setting.env}]".replace("%", "%%")
    if setting.positional:
        group.add_argument(setting.name, nargs="?", metavar=setting.kind.metavar, help=text)
    elif isinstance(setting.kind, Switch):
        group.add_argument(setting.option, dest=setting.name, action=argparse.BooleanOptionalAction, help=text)
    else:
        group.add_argument(setting.option, dest=setting.name, metavar=setting.kind.metavar, help=text)
