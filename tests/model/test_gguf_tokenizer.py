"""Tokenizers built from a GGUF vocabulary cut text as llama.cpp does (golden ids, see tests/golden/make_tokens.py)."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from isotherm.chat.tokenizer import Tokenizer
from isotherm.model.checkpoint import open_checkpoint
from isotherm.model.gguf_file import GgufFile
from isotherm.model.gguf_tokenizer import PRE_TOKENIZERS, tokenizer_from_gguf

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "tokens.json").read_text(encoding="utf-8"))
TEXTS, MADE = GOLDEN["texts"], GOLDEN["made"]
SAME_AS = {"llama3": "llama-bpe", "llama-v3": "llama-bpe"}
"""llama.cpp's other names for a cut that is in the golden file."""


def made(pre):
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": MADE["tokens"],
        "tokenizer.ggml.merges": MADE["merges"],
        "tokenizer.ggml.token_type": np.array([3 if token in MADE["controls"] else 1 for token in MADE["tokens"]]),
    }
    file = GgufFile(Path("made.gguf"), 3, metadata, {}, np.zeros(0, np.uint8))
    return Tokenizer(tokenizer_from_gguf(file))


def test_every_known_cut_was_compared():
    assert {SAME_AS.get(pre, pre) for pre in PRE_TOKENIZERS} == MADE["ids"].keys()


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
def test_ids_are_those_of_llama_cpp(pre):
    tokenizer = made(pre)
    for text, ids in zip(TEXTS, MADE["ids"][SAME_AS.get(pre, pre)], strict=True):
        assert tokenizer.encode(text) == ids, repr(text)


def test_the_comparison_tells_cuts_apart():
    for one, other in combinations(("gpt-2", "smollm", "llama-bpe", "qwen2"), 2):
        different = sum(a != b for a, b in zip(MADE["ids"][one], MADE["ids"][other], strict=True))
        assert different > 10, (one, other)


@pytest.mark.model
def test_ids_of_smollm2_are_those_of_llama_cpp_and_their_bytes_are_the_text(smollm2):
    tokenizer = Tokenizer(open_checkpoint(smollm2).tokenizer)
    assert len(TEXTS) > 170
    for text, ids in zip(TEXTS, GOLDEN["smollm2"], strict=True):
        assert tokenizer.encode(text) == ids, repr(text)
        assert b"".join(map(tokenizer.table.bytes_of, ids)).decode() == text
