"""Each kind of value: what it accepts, and that a refusal says what is needed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.settings.kinds import Integer, JsonObject, Seconds, Size, Switch, Text, TextList

PORT = Integer(0, 65535)


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (PORT, "8000", 8000),
        (PORT, 0, 0),
        (Integer(1, 8, auto=True), "auto", None),
        (Size(), "4096", 4096),
        (Size(), 4096, 4096),
        (Size(), "512MiB", 512 << 20),
        (Size(), "2 GB", 2_000_000_000),
        (Size(), "1.5KiB", 1536),
        (Size(auto=True), "auto", None),
        (Seconds(0, 100), "250ms", 0.25),
        (Seconds(0, 1000), "10m", 600.0),
        (Seconds(0, 100), 1.5, 1.5),
        (Switch(), "off", False),
        (Switch(), True, True),
        (Switch(), "YES", True),
        (Text(choices=("a", "b")), "b", "b"),
        (JsonObject(), '{"temperature": 0}', {"temperature": 0}),
        (JsonObject(), {"top_p": 1}, {"top_p": 1}),
        (TextList(), "a, b", ("a", "b")),
        (TextList(), ["a"], ("a",)),
    ],
)
def test_accepts(kind, raw, value):
    assert kind.parse(raw) == value


@pytest.mark.parametrize(
    ("kind", "raw", "phrase"),
    [
        (PORT, "http", "needs a whole number from 0 to 65535, not 'http'"),
        (PORT, 65536, "from 0 to 65535, not 65536"),
        (PORT, True, "needs a whole number"),
        (PORT, 80.5, "needs a whole number"),
        (PORT, "9" * 5000, "needs a whole number"),
        (Integer(1, 8, auto=True), "automatic", "or auto"),
        (Size(minimum=1024), "12", "needs at least 1 KiB"),
        (Size(), "many", "needs a size such as"),
        (Size(), True, "needs a size such as"),
        (Size(), "-1", "needs a size such as"),
        (Seconds(0.1, 10), "0", "needs from 0.1 to 10 seconds"),
        (Seconds(0, 10), "nan", "needs a duration"),
        (Seconds(0, 10), True, "needs a duration"),
        (Switch(), "maybe", "needs true or false"),
        (Text(choices=("a", "b")), "c", "needs one of a, b"),
        (Text(), 3, "put it in quotes"),
        (Text(), "  ", "is empty"),
        (JsonObject(), "{", "is not valid JSON"),
        (JsonObject(), '{"temperature": NaN}', "NaN is not a JSON number"),
        (JsonObject(), "[1]", "needs a JSON object"),
        (JsonObject(), {1: 2}, "needs a JSON object"),
        (TextList(), "a,,b", "empty item"),
        (TextList(), [], "empty item"),
        (TextList(), [1], "needs texts"),
    ],
)
def test_refuses(kind, raw, phrase):
    with pytest.raises(ValueError, match=r"needs|empty|JSON") as caught:
        kind.parse(raw)
    assert phrase in str(caught.value)


@given(st.integers(min_value=1, max_value=1 << 50))
def test_a_size_survives_being_shown(number):
    shown = Size().show(number).removesuffix(" bytes")
    assert Size().parse(shown) == number


@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.text())))
@pytest.mark.parametrize(
    "kind",
    [PORT, Size(), Seconds(0, 100), Switch(), Text(), JsonObject(), TextList()],
    ids=lambda kind: type(kind).__name__,
)
def test_any_input_is_read_or_refused_in_words(kind, raw):
    try:
        value = kind.parse(raw)
    except ValueError as refusal:
        text = str(refusal)
    else:
        text = kind.show(value)
    assert text
