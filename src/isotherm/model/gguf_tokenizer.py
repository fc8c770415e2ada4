"""Builds a ``tokenizer.json`` from the vocabulary of a GGUF file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from isotherm.base.errors import SetupError
from isotherm.base.tokenizer import TokenizerSpec
from isotherm.model.gguf_byte_level import WHOLE_WORDS_FIRST, byte_level_parts
from isotherm.model.gguf_file import GgufFile
from isotherm.model.gguf_sentencepiece import merges_from_scores, sentencepiece_parts

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4
"""Token types. All but normal ones (and bytes) are recognised whole; control tokens are never shown."""
EOS_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
MODELS = ("gpt2", "llama")


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    """Tokens and their types, by id."""

    tokens: list[str]
    kinds: list[int]


def tokenizer_from_gguf(file: GgufFile) -> TokenizerSpec:
    """The tokenizer of a GGUF file; SetupError when it has none or one that cannot be reproduced."""
    vocabulary = _vocabulary(file)
    tokens = vocabulary.tokens
    if file.text("tokenizer.ggml.model") == "llama":
        parts, begins = _sentencepiece(file, vocabulary), True
    else:
        pre = file.text("tokenizer.ggml.pre")
        parts = byte_level_parts(file.path, tokens, _required_texts(file, "merges"), pre)
        begins = pre in WHOLE_WORDS_FIRST
    bos_id, eos_id = _token_id(file, "bos_token_id"), _token_id(file, "eos_token_id")
    eos_ids = {_token_id(file, key) for key in EOS_KEYS} - {None}
    return TokenizerSpec(
        tokenizer_json=_tokenizer_json(vocabulary, parts),
        chat_template=file.text("tokenizer.chat_template"),
        bos_token=None if bos_id is None else tokens[bos_id],
        bos_id=bos_id,
        eos_token=None if eos_id is None else tokens[eos_id],
        eos_ids=tuple(sorted(token_id for token_id in eos_ids if token_id is not None)),
        special_ids=tuple(index for index, kind in enumerate(vocabulary.kinds) if kind in (UNKNOWN, CONTROL)),
        add_bos=file.flag("tokenizer.ggml.add_bos_token", begins) and bos_id is not None,
    )


def _vocabulary(file: GgufFile) -> _Vocabulary:
    model = file.text("tokenizer.ggml.model")
    if model is None:
        raise SetupError(f"{file.path} has no tokenizer (tokenizer.ggml.model is missing). Convert the model again.")
    if model not in MODELS:
        raise SetupError(
            f"{file.path}: the tokenizer {model!r} is not supported in GGUF files; 'gpt2' (byte-level) and "
            "'llama' (SentencePiece) are. Use the Hugging Face folder of this model, which brings its tokenizer.json."
        )
    tokens = _required_texts(file, "tokens")
    kinds = _numbers(file, "token_type", len(tokens), default=NORMAL)
    return _Vocabulary(tokens, [int(kind) for kind in kinds])


def _required_texts(file: GgufFile, key: str) -> list[str]:
    texts = file.texts(f"tokenizer.ggml.{key}")
    if not texts:
        raise SetupError(f"{file.path}: tokenizer.ggml.{key} is missing. Convert the model again.")
    return texts


def _numbers(file: GgufFile, key: str, count: int, default: float | None = None) -> list[float]:
    """One number for each token."""
    values = file.metadata.get(f"tokenizer.ggml.{key}")
    if values is None and default is not None:
        return [default] * count
    if not isinstance(values, np.ndarray) or values.shape != (count,):
        raise SetupError(f"{file.path}: tokenizer.ggml.{key} must be {count} numbers, one for each token.")
    found: list[float] = values.tolist()
    return found


def _token_id(file: GgufFile, key: str) -> int | None:
    token_id = file.metadata.get("tokenizer.ggml." + key)
    count = len(file.texts("tokenizer.ggml.tokens"))
    if token_id is None:
        return None
    if not isinstance(token_id, int) or not 0 <= token_id < count:
        raise SetupError(f"{file.path}: {key} {token_id!r} is outside the vocabulary of {count} tokens.")
    return token_id


def _sentencepiece(file: GgufFile, vocabulary: _Vocabulary) -> dict[str, Any]:
    tokens, kinds = vocabulary.tokens, vocabulary.kinds
    scores = _numbers(file, "scores", len(tokens))
    merges = merges_from_scores(tokens, scores, [kind == NORMAL for kind in kinds])
    unknown = next((token for token, kind in zip(tokens, kinds, strict=True) if kind == UNKNOWN), None)
    return sentencepiece_parts(tokens, merges, unknown, file.flag("tokenizer.ggml.add_space_prefix", True))


def _tokenizer_json(vocabulary: _Vocabulary, parts: dict[str, Any]) -> bytes:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [
        {"id": token_id, "content": vocabulary.tokens[token_id], "special": kind != USER_DEFINED, **plain}
        for token_id, kind in enumerate(vocabulary.kinds)
        if kind in (UNKNOWN, CONTROL, USER_DEFINED)
    ]
    description = {"version": "1.0", "added_tokens": added, "post_processor": None, **parts}
    return json.dumps(description, ensure_ascii=False, separators=(",", ":")).encode()
