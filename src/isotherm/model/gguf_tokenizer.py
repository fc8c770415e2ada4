"""Builds a ``tokenizer.json`` from the vocabulary and merges of a GGUF file (byte-level BPE).

A GGUF file names the way text is cut before merging by a word (``tokenizer.ggml.pre``); the words
known here were compared with llama.cpp on the same vocabulary, id by id. An unknown word is
refused: another cut gives other tokens and a model that is quietly worse.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from isotherm.base.errors import SetupError
from isotherm.base.tokenizer import TokenizerSpec
from isotherm.model.gguf_file import GgufFile

CONTROL, USER_DEFINED = 3, 4
"""Token types whose text is recognised whole; control tokens are also never shown."""
EOS_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")

_LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2_WORDS = _LLAMA3_WORDS.replace(r"\p{N}{1,3}", r"\p{N}")


def _byte_level(own_words: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": own_words}


def _split(pattern: str) -> list[dict[str, Any]]:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return [split, _byte_level(own_words=False)]


_DIGITS = [{"type": "Digits", "individual_digits": True}, _byte_level(own_words=True)]
PRE_TOKENIZERS: dict[str, list[dict[str, Any]]] = {
    "gpt-2": [_byte_level(own_words=True)],
    "smollm": _DIGITS,
    "starcoder": _DIGITS,
    "refact": _DIGITS,
    "command-r": _DIGITS,
    "llama3": _split(_LLAMA3_WORDS),
    "llama-bpe": _split(_LLAMA3_WORDS),
    "llama-v3": _split(_LLAMA3_WORDS),
    "qwen2": _split(_QWEN2_WORDS),
    "deepseek-r1-qwen": _split(_QWEN2_WORDS),
}
"""How each ``pre`` cuts text, in the terms of ``tokenizers``."""
WHOLE_WORDS_FIRST = ("llama3", "llama-bpe", "llama-v3")
"""A word that is in the vocabulary is one token even if no chain of merges leads to it."""


def tokenizer_from_gguf(file: GgufFile) -> TokenizerSpec:
    """The tokenizer of a GGUF file; SetupError when it has none or one that cannot be reproduced."""
    tokens, kinds, merges = _vocabulary(file)
    pre = file.text("tokenizer.ggml.pre")
    if pre not in PRE_TOKENIZERS:
        known = ", ".join(sorted(PRE_TOKENIZERS))
        raise SetupError(
            f"{file.path}: the pre-tokenizer {pre!r} is not known; known are {known}. "
            "Use the Hugging Face folder of this model, which brings its tokenizer.json."
        )
    special = [token_id for token_id, kind in enumerate(kinds) if kind == CONTROL]
    bos_id, eos_id = _token_id(file, "bos_token_id"), _token_id(file, "eos_token_id")
    eos_ids = {_token_id(file, key) for key in EOS_KEYS} - {None}
    return TokenizerSpec(
        tokenizer_json=_tokenizer_json(tokens, kinds, merges, pre),
        chat_template=file.text("tokenizer.chat_template"),
        bos_token=None if bos_id is None else tokens[bos_id],
        bos_id=bos_id,
        eos_token=None if eos_id is None else tokens[eos_id],
        eos_ids=tuple(sorted(token_id for token_id in eos_ids if token_id is not None)),
        special_ids=tuple(special),
        add_bos=file.flag("tokenizer.ggml.add_bos_token") and bos_id is not None,
    )


def _vocabulary(file: GgufFile) -> tuple[list[str], list[int], list[str]]:
    model = file.text("tokenizer.ggml.model")
    if model is None:
        raise SetupError(f"{file.path} has no tokenizer (tokenizer.ggml.model is missing). Convert the model again.")
    if model != "gpt2":
        raise SetupError(
            f"{file.path}: the tokenizer {model!r} is not supported in GGUF files; 'gpt2' (byte-level BPE) is. "
            "Use the Hugging Face folder of this model, which brings its tokenizer.json."
        )
    tokens, merges = file.texts("tokenizer.ggml.tokens"), file.texts("tokenizer.ggml.merges")
    if not tokens or not merges:
        raise SetupError(f"{file.path}: tokenizer.ggml.tokens or tokenizer.ggml.merges is missing. Convert it again.")
    kinds = file.metadata.get("tokenizer.ggml.token_type", np.ones(len(tokens), np.int32))
    if not isinstance(kinds, np.ndarray) or kinds.shape != (len(tokens),):
        raise SetupError(f"{file.path}: tokenizer.ggml.token_type must be {len(tokens)} numbers, one a token.")
    return tokens, kinds.tolist(), merges


def _token_id(file: GgufFile, key: str) -> int | None:
    token_id = file.metadata.get("tokenizer.ggml." + key)
    count = len(file.texts("tokenizer.ggml.tokens"))
    if token_id is None:
        return None
    if not isinstance(token_id, int) or not 0 <= token_id < count:
        raise SetupError(f"{file.path}: {key} {token_id!r} is outside the vocabulary of {count} tokens.")
    return token_id


def _tokenizer_json(tokens: list[str], kinds: list[int], merges: list[str], pre: str) -> bytes:
    added = [
        {
            "id": token_id,
            "content": tokens[token_id],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind == CONTROL,
        }
        for token_id, kind in enumerate(kinds)
        if kind in (CONTROL, USER_DEFINED)
    ]
    description = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if "qwen" in pre else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": PRE_TOKENIZERS[pre]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "ignore_merges": pre in WHOLE_WORDS_FIRST,
            "vocab": {token: token_id for token_id, token in enumerate(tokens)},
            "merges": merges,
        },
    }
    return json.dumps(description, ensure_ascii=False, separators=(",", ":")).encode()
