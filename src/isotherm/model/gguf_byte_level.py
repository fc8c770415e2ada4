"""The parts of a ``tokenizer.json`` for a byte-level BPE vocabulary (``tokenizer.ggml.model`` ``gpt2``).

A GGUF file names the way text is cut before merging by a word (``tokenizer.ggml.pre``). The words
known here were compared with llama.cpp on a vocabulary that shows each difference; for ``tekken``
llama.cpp itself only comes near the model's own cut, which is used here. An unknown word is
refused: another cut gives other tokens and a model that is quietly worse.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from isotherm.base.errors import SetupError

_LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2_WORDS = _LLAMA3_WORDS.replace(r"\p{N}{1,3}", r"\p{N}")

_TEKKEN_WORDS = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


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
    "falcon3": _split(_LLAMA3_WORDS),
    "smaug-bpe": _split(_LLAMA3_WORDS),
    "tekken": _split(_TEKKEN_WORDS),
    "qwen2": _split(_QWEN2_WORDS),
    "deepseek-r1-qwen": _split(_QWEN2_WORDS),
}
"""How each ``pre`` cuts text, in the terms of ``tokenizers``."""
WHOLE_WORDS_FIRST = ("llama3", "llama-bpe", "llama-v3", "falcon3", "tekken")
"""A word that is in the vocabulary is one token even if no chain of merges leads to it. These models also
begin every text with BOS unless their file says otherwise (older converters left that out)."""


def byte_level_parts(path: Path, tokens: list[str], merges: list[str], pre: str | None) -> dict[str, Any]:
    """Normaliser, pre-tokenizer, model and decoder; SetupError for an unknown ``pre``."""
    if pre not in PRE_TOKENIZERS:
        known = ", ".join(sorted(PRE_TOKENIZERS))
        raise SetupError(
            f"{path}: the pre-tokenizer {pre!r} is not known; known are {known}. "
            "Use the Hugging Face folder of this model, which brings its tokenizer.json."
        )
    return {
        "normalizer": {"type": "NFC"} if "qwen" in pre else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": PRE_TOKENIZERS[pre]},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "ignore_merges": pre in WHOLE_WORDS_FIRST,
            "vocab": {token: token_id for token_id, token in enumerate(tokens)},
            "merges": merges,
        },
    }
