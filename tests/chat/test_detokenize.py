"""Streams of tokens become whole characters, also when the bytes are nonsense."""

from hypothesis import given
from hypothesis import strategies as st

from chat.conftest import byte_level_description, spec_of
from isotherm.chat.detokenize import Detokenizer, TokenTable
from support.cases import case

TABLE = TokenTable(spec_of(byte_level_description()))
BYTE_IDS = range(256)


def streamed(ids):
    detokenizer = Detokenizer(TABLE)
    return [detokenizer.push(token_id) for token_id in ids], detokenizer.flush()


@given(st.binary(max_size=60))
def test_any_bytes_one_by_one_are_what_they_are_together(data):
    pieces, rest = streamed(data)
    assert "".join(pieces) + rest == data.decode("utf-8", errors="replace")


@given(st.text(max_size=30))
def test_no_piece_of_a_good_text_is_broken(text):
    pieces, rest = streamed(text.encode())
    assert "".join(pieces) == text
    assert rest == ""
    assert [piece for piece in pieces if piece] == list(text)


def test_233_a_cut_character_is_one_replacement_at_the_end():
    (first, second) = map(bytes.fromhex, case("233")["input"]["byte_chunks_hex"])
    pieces, rest = streamed(first + second)
    assert "".join(pieces) == "ok "
    assert rest == "\ufffd"
    assert "".join(pieces) + rest in ("ok ", "ok \ufffd")


def test_control_tokens_give_no_text():
    control = min(TABLE.special_ids)
    assert streamed([control, ord("h"), control]) == (["", "h", ""], "")
