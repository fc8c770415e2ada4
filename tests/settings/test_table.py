"""The table itself: names are free to be flags, variables and YAML keys, and defaults are legal."""

import argparse

import pytest

from isotherm.cli.flags import add_flags
from isotherm.settings.table import BY_NAME, TABLE, of_verb


def test_names_are_unique():
    assert len(BY_NAME) == len(TABLE)


@pytest.mark.parametrize("setting", TABLE, ids=lambda setting: setting.name)
def test_the_built_in_value_is_one_that_a_user_could_give(setting):
    if setting.default is None or setting.default == ():
        return
    assert (
        setting.kind.parse(dict(setting.default) if setting.name == "default_sampling" else setting.default) is not None
    )


@pytest.mark.parametrize("setting", TABLE, ids=lambda setting: setting.name)
def test_help_is_a_sentence(setting):
    assert setting.help.endswith(".")
    assert setting.verbs


@pytest.mark.parametrize("verb", ["serve", "chat"])
def test_every_setting_has_a_flag_unless_it_is_secret(verb):
    parser = argparse.ArgumentParser()
    add_flags(parser, verb)
    text = "".join(parser.format_help().split())
    for setting in of_verb(verb):
        assert (setting.option in text) is not setting.secret
        assert (setting.env in text) is not setting.secret
