"""The slash commands and what a request is made of."""

import json

import pytest

from isotherm.cli.conversation import COMMANDS, CommandError, Conversation, origin_lines, parse_value


@pytest.fixture
def talk():
    return Conversation(model="m")


def test_a_body_carries_history_system_and_values(talk):
    talk.command("/system be brief")
    talk.command("/set temperature 0.6")
    talk.add("hello", "hi")
    assert talk.body("again") == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "hi"},
            {"role": "user", "content": "again"},
        ],
        "temperature": 0.6,
    }


def test_unset_leaves_the_value_to_the_server(talk):
    talk.command("/set temperature 0")
    assert talk.values == {"temperature": 0}
    talk.command("/unset temperature")
    assert "temperature" not in talk.body("x")


def test_clear_keeps_system_and_values(talk):
    talk.command("/system s")
    talk.command("/set seed 7")
    talk.add("a", "b")
    talk.command("/clear")
    assert talk.messages == [{"role": "system", "content": "s"}]
    assert talk.values == {"seed": 7}
    talk.command("/system")
    assert talk.messages == []


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [("temperature", "0.6", 0.6), ("stop", "END", "END"), ("stop", '["a"]', ["a"]), ("ignore_eos", "true", True)],
)
def test_values_are_json_where_they_can_be(name, text, value):
    assert parse_value(name, text) == value


@pytest.mark.parametrize(
    ("line", "phrase"),
    [
        ("/set temperatur 1", "Did you mean temperature?"),
        ("/set temperature", "needs a value"),
        ("/unset top_p", "is not set"),
        ("/hlep", "Did you mean /help?"),
        ("/save", "needs a file name"),
        ("/save no/such/folder/file", "No such file"),
    ],
)
def test_a_slip_changes_nothing_and_is_named(talk, line, phrase):
    with pytest.raises(CommandError) as caught:
        talk.command(line)
    assert phrase in str(caught.value)
    assert talk == Conversation(model="m")


def test_show_lists_what_is_set_and_the_last_origins(talk):
    talk.command("/set top_p 0.9")
    talk.report = {"sampling": {"temperature": {"value": 0.6, "origin": "operator"}}}
    text = talk.command("/show")
    assert "set       top_p = 0.9" in text
    assert "operator  temperature 0.6" in text


def test_origins_are_grouped(talk):
    report = {
        "sampling": {
            "temperature": {"value": 0.6, "origin": "operator"},
            "top_p": {"value": 1.0, "origin": "protocol"},
            "top_k": {"value": 0, "origin": "protocol"},
        }
    }
    assert origin_lines(report) == ["operator  temperature 0.6", "protocol  top_p 1.0, top_k 0"]
    assert origin_lines({}) == []


def test_save_writes_json(talk, tmp_path):
    talk.add("Grüße", "hi")
    path = tmp_path / "talk.json"
    assert "saved 2 messages" in talk.command(f"/save {path}")
    assert json.loads(path.read_text(encoding="utf-8"))["messages"][0]["content"] == "Grüße"


def test_help_names_every_command(talk):
    text = talk.command("/help")
    assert all(name in text for name in COMMANDS)
