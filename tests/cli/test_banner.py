"""What is printed at the start: units, order, origins."""

from isotherm.base.sampling import Origin, Resolved
from isotherm.cli.banner import by_origin, readable, show

FACTS = {
    "model": "m",
    "context": "8192 tokens",
    "blocks": 1000,
    "block_size": 32,
    "kv_bytes": 720_000_000,
    "memory_bytes": 250_000_000,
    "weight_format": "Q4_1",
    "url": "http://127.0.0.1:1",
}


def test_numbers_have_units_and_what_matters_comes_first():
    lines = readable(FACTS)
    assert lines["KV cache"] == "1000 blocks of 32 tokens, at most 720 MB"
    assert lines["memory"] == "250 MB"
    assert lines["weight format"] == "Q4_1"
    assert list(lines)[:4] == ["model", "context", "KV cache", "memory"]


def test_defaults_come_with_their_origin():
    values = {"temperature": Resolved(0.6, Origin.OPERATOR), "max_tokens": Resolved(None, Origin.PROTOCOL)}
    groups = by_origin(values)
    assert groups == {"operator": {"temperature": 0.6}, "protocol": {"max_tokens": None}}
    lines = readable({"defaults": groups})
    assert lines == {"operator defaults": "temperature 0.6", "protocol defaults": "max_tokens as many as fit"}


def test_it_is_talk_and_not_data(capsys):
    show(FACTS)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "OpenAI base URL: http://127.0.0.1:1/v1" in captured.err
