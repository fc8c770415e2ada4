"""Ids, bytes and text of both tokenizer families."""

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from chat.conftest import byte_level_description, sentencepiece_description, spec_of
from isotherm.base.errors import SetupError
from isotherm.chat.token_bytes import TokenTable, byte_level_alphabet
from isotherm.chat.tokenizer import Tokenizer


def test_the_byte_alphabet_is_a_bijection():
    alphabet = byte_level_alphabet()
    assert sorted(alphabet.values()) == list(range(256))
    assert all(chr(code).isprintable() and not chr(code).isspace() for code in alphabet)


@given(st.text())
def test_bytes_of_byte_level_tokens_join_to_the_text(text):
    tokenizer = Tokenizer(spec_of(byte_level_description()))
    ids = tokenizer.encode(text)
    assert b"".join(map(tokenizer.table.bytes_of, ids)) == text.encode()
    assert tokenizer.decode(ids, skip_special=False) == text


@given(st.text())
def test_bytes_of_sentencepiece_tokens_join_to_the_text(text):
    """A space in front is the tokenizer's own; U+2581 cannot be told from a space in this family."""
    tokenizer = Tokenizer(spec_of(sentencepiece_description(), template=None))
    if "▁" not in text and "<unk>" not in text and text:
        ids = tokenizer.encode(text)
        assert b"".join(map(tokenizer.table.bytes_of, ids)) == b" " + text.encode()
        assert tokenizer.decode(ids) == text


def test_decoding_agrees_with_the_library(sentencepiece):
    library = tokenizers.Tokenizer.from_buffer(sentencepiece.tokenizer_json)
    ours = Tokenizer(sentencepiece)
    for text in ("hi hi", "é日", "🎉 hi", " hi"):
        assert ours.decode(ours.encode(text)) == library.decode(library.encode(text).ids)


def test_control_tokens_have_bytes_but_are_not_shown(spec):
    tokenizer = Tokenizer(spec)
    ids = tokenizer.encode("hello<|end|>")
    assert tokenizer.table.bytes_of(ids[-1]) == b"<|end|>"
    assert tokenizer.decode(ids) == "hello"
    assert tokenizer.decode(ids, skip_special=False) == "hello<|end|>"


def test_text_alone_never_becomes_markup_but_other_added_tokens_stay(spec):
    tokenizer = Tokenizer(spec)
    ids = tokenizer.encode_text("<|end|>  <think>")
    marks = set(tokenizer.markup.ids.values())
    assert not marks & set(ids)
    two_spaces = next(token["id"] for token in tokenizer.table.added_tokens if token["content"] == "  ")
    assert two_spaces in ids
    assert tokenizer.decode(ids) == "<|end|>  <think>"


def test_an_unknown_id_is_an_index_error(spec):
    table = TokenTable(spec)
    for token_id in (-1, len(table)):
        with pytest.raises(IndexError):
            table.bytes_of(token_id)


def test_padding_of_the_vocabulary_has_no_bytes(description):
    description["model"]["vocab"].pop("Ġw")
    description["model"]["merges"].remove("Ġ w")
    assert TokenTable(spec_of(description)).bytes_of(260) == b""


@pytest.mark.parametrize(
    ("change", "complaint"),
    [({"decoder": {"type": "WordPiece"}}, "WordPiece"), ({"decoder": None}, "none"), ({"model": {}}, "tokenizer.json")],
)
def test_a_tokenizer_of_another_kind_is_refused(description, change, complaint):
    with pytest.raises(SetupError, match=complaint):
        Tokenizer(spec_of({**description, **change}))


def test_markup_with_white_space_beside_it_takes_it_along(description):
    for token in description["added_tokens"]:
        token["rstrip"] = token["content"] == "<|start|>"
    tokenizer = Tokenizer(spec_of(description))
    text = "<|start|>\n\nhello<|end|>"
    pieces = [(piece, token_id) for piece, token_id in tokenizer.markup.split(text) if piece]
    assert [piece for piece, _ in pieces] == ["<|start|>", "hello", "<|end|>"]
    again = [i for piece, token_id in pieces for i in ([token_id] if token_id else tokenizer.encode_text(piece))]
    assert again == tokenizer.encode(text)


def test_a_unigram_vocabulary_is_a_list_of_pairs(sentencepiece):
    description = sentencepiece_description()
    pieces = list(description["model"]["vocab"])
    unigram = {"type": "Unigram", "unk_id": 0, "byte_fallback": True, "vocab": [[piece, 0.0] for piece in pieces]}
    table = TokenTable(spec_of({**description, "model": unigram}, template=None))
    assert table.bytes_of(pieces.index("▁hi")) == b" hi"
    assert table.bytes_of(pieces.index("<0xE6>")) == b"\xe6"
