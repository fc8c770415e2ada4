"""Who wins, and that every bad value or name is refused with where it stands."""

import pytest

from isotherm.base.errors import SetupError
from isotherm.settings.explain import explain
from isotherm.settings.keys import api_keys
from isotherm.settings.load import Source, load


def from_file(tmp_path, text, flags=None, env=None):
    path = tmp_path / "isotherm.yaml"
    path.write_text(text)
    return load("serve", {"config": str(path), **(flags or {})}, env or {})


def test_built_in_values_where_nobody_says_anything():
    settings = load("serve", {"port": None}, {"PATH": "/bin"})
    assert settings["port"] == 8000
    assert settings["host"] == "127.0.0.1"
    assert settings["max_body_bytes"] == 4 << 20
    assert settings["max_model_len"] is None
    assert settings.entry("port").winner.source is Source.BUILT_IN


def test_flag_over_environment_over_file_over_built_in(tmp_path):
    text = "port: 1\nmax_num_seqs: 1\nmax_queue: 1\n"
    settings = from_file(tmp_path, text, {"port": "3"}, {"ISOTHERM_PORT": "2", "ISOTHERM_MAX_NUM_SEQS": "2"})
    assert (settings["port"], settings["max_num_seqs"], settings["max_queue"]) == (3, 2, 1)
    entry = settings.entry("port")
    assert [candidate.value for candidate in entry.candidates] == [3, 2, 1, 8000]
    assert entry.winner.where == "--port"
    assert [loser.source for loser in entry.losers] == [Source.ENVIRONMENT, Source.FILE, Source.BUILT_IN]


def test_false_and_zero_on_the_command_line_are_values():
    settings = load("serve", {"strict": False, "port": "0"}, {"ISOTHERM_STRICT": "true", "ISOTHERM_PORT": "1"})
    assert settings["strict"] is False
    assert settings["port"] == 0


def test_explain_shows_winner_and_losers_but_no_secret(tmp_path):
    text = explain(from_file(tmp_path, "port: 1\napi_keys: [sk-hidden]\n", {"port": "3"}))
    assert "port               3  (--port)" in text
    assert "over 1  (" in text
    assert "isotherm.yaml: port)" in text
    assert "sk-hidden" not in text
    assert "1 hidden" in text


@pytest.mark.parametrize(
    ("flags", "env", "phrases"),
    [
        ({"port": "http"}, {}, ["--port needs a whole number", "'http'"]),
        ({"dtype": "float16"}, {}, ["--dtype needs one of auto, float32, bfloat16"]),
        ({}, {"ISOTHERM_PORT": "99999"}, ["ISOTHERM_PORT needs", "99999"]),
        ({"port": "1"}, {"ISOTHERM_PORT": "99999"}, ["ISOTHERM_PORT needs"]),
        ({}, {"ISOTHERM_PORT": ""}, ["ISOTHERM_PORT is empty"]),
        ({}, {"ISOTHERM_PROT": "1"}, ["ISOTHERM_PROT", "not a setting", "Did you mean ISOTHERM_PORT?"]),
        ({}, {"ISOTHERM_PORT": "tcp://10.0.0.1:80"}, ["enableServiceLinks"]),
        ({}, {"ISOTHERM_API_KEYS": "a,,sk-hidden"}, ["ISOTHERM_API_KEYS", "secret"]),
        ({"config": "absent.yaml"}, {}, ["absent.yaml", "No such file"]),
        ({}, {"ISOTHERM_CONFIG": ""}, ["ISOTHERM_CONFIG is empty"]),
        ({"default_sampling": "{"}, {}, ["--default-sampling is not valid JSON"]),
    ],
)
def test_a_bad_flag_or_variable_is_named(flags, env, phrases):
    with pytest.raises(SetupError) as caught:
        load("serve", flags, env)
    assert all(phrase in str(caught.value) for phrase in phrases), caught.value
    assert "sk-hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("prot: 1", ["isotherm.yaml: 'prot' is not a setting", "Did you mean port?"]),
        ("max-queue: 1", ["Did you mean max_queue?"]),
        ("port: high", ["isotherm.yaml: port needs a whole number"]),
        ("port: 1\nport: 2", ["'port' stands twice", "line 2"]),
        ("port:", ["isotherm.yaml: port is empty"]),
        ("log_level: off", ["log_level needs text", "quotes"]),
        ("- port", ["must be a mapping"]),
        ("port: [", ["not valid YAML"]),
        ("config: other.yaml", ["'config' is not a setting"]),
        ("? [a, b]\n: 1", ["not valid YAML"]),
        ("1: 2", ["must be a mapping"]),
    ],
)
def test_a_bad_line_of_the_file_is_named(tmp_path, text, phrases):
    with pytest.raises(SetupError) as caught:
        from_file(tmp_path, text)
    assert all(phrase in str(caught.value) for phrase in phrases), caught.value


def test_an_empty_file_sets_nothing(tmp_path):
    assert from_file(tmp_path, "")["port"] == 8000


def test_a_file_in_another_encoding_is_refused(tmp_path):
    path = tmp_path / "isotherm.yaml"
    path.write_bytes(b"host: \xff")
    with pytest.raises(SetupError, match="not valid YAML"):
        load("serve", {"config": str(path)}, {})


def test_kubernetes_service_links_are_left_alone():
    env = {"ISOTHERM_SERVICE_HOST": "10.0.0.1", "ISOTHERM_PORT_80_TCP": "tcp://10.0.0.1:80"}
    assert load("serve", {}, env)["port"] == 8000


def test_keys_of_setting_and_file_are_joined(tmp_path):
    path = tmp_path / "keys"
    path.write_text("# staff\nsk-one\n\nsk-two\n")
    settings = load("serve", {"api_key_file": str(path)}, {"ISOTHERM_API_KEYS": "sk-two,sk-three"})
    assert api_keys(settings) == ("sk-two", "sk-three", "sk-one")
    assert api_keys(load("serve", {}, {})) == ()


@pytest.mark.parametrize("content", ["", "# nothing\n"])
def test_a_key_file_without_keys_does_not_open_the_server(tmp_path, content):
    path = tmp_path / "keys"
    path.write_text(content)
    with pytest.raises(SetupError, match="holds no key"):
        api_keys(load("serve", {"api_key_file": str(path)}, {}))


@pytest.mark.parametrize("key", ["sk one", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused(key):
    with pytest.raises(SetupError, match="blank or a character outside ASCII") as caught:
        api_keys(load("serve", {}, {"ISOTHERM_API_KEYS": key}))
    assert key not in str(caught.value)


def test_a_missing_key_file_is_named():
    with pytest.raises(SetupError, match=r"--api-key-file: cannot read the key file absent"):
        api_keys(load("serve", {"api_key_file": "absent"}, {}))
