"""Tokens come with their own text: through held-back characters, stop strings, and the end."""

from hypothesis import given
from hypothesis import strategies as st

from engine.fakes import Letters
from isotherm.engine.messages import TokenScore
from isotherm.engine.text_stream import TextStream


class Bytes:
    """Token t is the byte t; whole characters only."""

    def __init__(self):
        self.pending = b""

    def push(self, token_id):
        self.pending += bytes([token_id])
        try:
            text = self.pending.decode()
        except UnicodeDecodeError:
            return ""
        self.pending = b""
        return text

    def flush(self):
        return "\ufffd" if self.pending else ""


def feed(stream, data):
    """Push bytes one by one; returns the deltas and the stop string that ended them."""
    deltas = []
    for byte in data:
        matched = stream.push(byte, TokenScore(byte, -float(byte)))
        if matched:
            return [*deltas, stream.take()], matched
        deltas.append(stream.take())
    matched = stream.close()
    return [*deltas, stream.take()], matched


def joined(deltas):
    return "".join(text for text, *_ in deltas), [token for _, tokens, *_ in deltas for token in tokens]


def test_a_split_character_comes_with_all_its_tokens():
    deltas, _ = feed(TextStream(Bytes(), None), "aé!".encode())
    assert [(text, len(tokens), lengths) for text, tokens, lengths, _ in deltas] == [
        ("a", 1, [1]),
        ("", 0, []),
        ("é", 2, [1, 0]),
        ("!", 1, [1]),
        ("", 0, []),
    ]


def test_a_cut_character_is_replaced_once():
    deltas, _ = feed(TextStream(Bytes(), None), b"ok \xf0\x9f")
    assert joined(deltas) == ("ok \ufffd", list(b"ok \xf0\x9f"))


def test_stop_string_across_tokens():
    deltas, matched = feed(TextStream(Bytes(), Letters.Stops(("END",))), b"x ENTER END more")
    assert matched == "END"
    assert joined(deltas) == ("x ENTER ", list(b"x ENTER END"))
    held = [index for index, (text, tokens, *_) in enumerate(deltas) if not text and not tokens]
    assert held == [2, 3, 5, 8, 9], "E and N wait until they turn out to be ENTER, so does the next E, and again at END"


def test_possible_stop_is_released_at_the_end():
    deltas, matched = feed(TextStream(Bytes(), Letters.Stops(("END",))), b"an EN")
    assert (matched, joined(deltas)) == (None, ("an EN", list(b"an EN")))


def test_stop_strings_wait_for_min_tokens():
    deltas, matched = feed(TextStream(Bytes(), Letters.Stops(("b",)), stops_from=3), b"abaab")
    assert (matched, joined(deltas)[0]) == ("b", "abaa")


def test_the_rest_may_complete_a_stop_string():
    deltas, matched = feed(TextStream(Bytes(), Letters.Stops(("\ufffd",))), b"ok \xf0\x9f")
    assert (matched, joined(deltas)) == ("\ufffd", ("ok ", list(b"ok \xf0\x9f")))


def test_silent_end_token_is_delivered_without_text():
    stream = TextStream(Bytes(), None)
    stream.push(97)
    stream.push_silent(255)
    assert stream.close() is None
    assert stream.take() == ("a", [97, 255], [1, 0], [])


@given(st.text(alphabet="aé中😀EN", max_size=30), st.sampled_from([(), ("EN",), ("aa", "中E")]), st.integers(0, 5))
def test_nothing_is_lost_or_reordered(text, stops, stops_from):
    """Every pushed token is delivered once, in order, with its score, never ahead of its text."""
    data = text.encode()
    stream = TextStream(Bytes(), Letters.Stops(stops) if stops else None, stops_from)
    deltas, matched = feed(stream, data)
    got, tokens = joined(deltas)
    assert bytes(tokens) == data[: len(tokens)]
    assert [score.token_id for *_, scores in deltas for score in scores] == tokens
    assert got == text if matched is None else text.startswith(got + matched)
    assert len(tokens) == len(data) if matched is None else bytes(tokens).decode().endswith(matched)
    so_far, ends = "", 0
    for piece, ids, lengths, _ in deltas[:-1]:
        so_far, ends = so_far + piece, ends + len(ids)
        assert len(bytes(tokens[:ends]).decode()) <= len(so_far), "a token came before its text"
        assert len(lengths) == len(ids)
