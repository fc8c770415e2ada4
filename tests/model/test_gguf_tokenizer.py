"""Tokenizers built from a GGUF vocabulary cut text as llama.cpp does (golden ids, see tests/golden/make_tokens.py)."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from isotherm.chat.tokenizer import Tokenizer
from isotherm.model.checkpoint import open_checkpoint
from isotherm.model.gguf_byte_level import PRE_TOKENIZERS
from isotherm.model.gguf_file import GgufFile
from isotherm.model.gguf_tokenizer import tokenizer_from_gguf

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "tokens.json").read_text(encoding="utf-8"))
TEXTS, MADE, PIECES = GOLDEN["texts"], GOLDEN["made"], GOLDEN["sentencepiece"]
SAME_AS = {"llama3": "llama-bpe", "llama-v3": "llama-bpe"}
"""llama.cpp's other names for a cut that is in the golden file."""


def tokenizer_of(metadata):
    return Tokenizer(tokenizer_from_gguf(GgufFile(Path("made.gguf"), 3, metadata, {}, np.zeros(0, np.uint8))))


def made(pre):
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": MADE["tokens"],
        "tokenizer.ggml.merges": MADE["merges"],
        "tokenizer.ggml.token_type": np.array([3 if token in MADE["controls"] else 1 for token in MADE["tokens"]]),
    }
    return tokenizer_of(metadata)


def comparable(pre, text):
    """llama.cpp takes every letter beyond ASCII for upper and lower case in ``tekken``; the model does not."""
    return pre != "tekken" or not any(character > "\x7f" and character.isupper() for character in text)


def test_every_known_cut_was_compared():
    assert {SAME_AS.get(pre, pre) for pre in PRE_TOKENIZERS} == MADE["ids"].keys()


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
def test_ids_are_those_of_llama_cpp(pre):
    tokenizer = made(pre)
    for text, ids in zip(TEXTS, MADE["ids"][SAME_AS.get(pre, pre)], strict=True):
        if comparable(pre, text):
            assert tokenizer.encode(text) == ids, repr(text)


@pytest.mark.parametrize("prefix", [True, False])
def test_sentencepiece_ids_are_those_of_llama_cpp(prefix):
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": PIECES["tokens"],
        "tokenizer.ggml.scores": np.array(PIECES["scores"], np.float32),
        "tokenizer.ggml.token_type": np.array(PIECES["kinds"], np.int32),
        "tokenizer.ggml.add_space_prefix": prefix,
    }
    tokenizer = tokenizer_of(metadata)
    for text, ids in zip(TEXTS, PIECES["ids_by_prefix"][str(prefix)], strict=True):
        assert tokenizer.encode(text) == ids, repr(text)
        if not tokenizer.markup.ids.keys() & set(text.split()) and "<" not in text:
            assert tokenizer.decode(ids) == text


def test_texts_mostly_count_for_every_cut():
    assert sum(comparable("tekken", text) for text in TEXTS) > 0.9 * len(TEXTS)


def test_the_comparison_tells_cuts_apart():
    for one, other in combinations(("gpt-2", "smollm", "llama-bpe", "qwen2", "tekken"), 2):
        different = sum(a != b for a, b in zip(MADE["ids"][one], MADE["ids"][other], strict=True))
        assert different > 10, (one, other)


@pytest.mark.model
def test_ids_of_smollm2_are_those_of_llama_cpp_and_their_bytes_are_the_text(smollm2):
    tokenizer = Tokenizer(open_checkpoint(smollm2).tokenizer)
    assert len(TEXTS) > 170
    for text, ids in zip(TEXTS, GOLDEN["smollm2"], strict=True):
        assert tokenizer.encode(text) == ids, repr(text)
        assert b"".join(map(tokenizer.table.bytes_of, ids)).decode() == text
