"""A byte-level tokenizer with DeepSeek-V4's markers, small enough for a network with a vocabulary of hundreds."""

from __future__ import annotations

from itertools import product
from typing import Any

BOS, EOS, PAD = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"
MARKERS = (
    "<｜fim▁hole｜>",
    "<｜fim▁begin｜>",
    "<｜fim▁end｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<|EOT|>",
    "<think>",
    "</think>",
    "｜DSML｜",
    "<｜latest_reminder｜>",
    "<｜action｜>",
    "<｜query｜>",
    "<｜authority｜>",
    "<｜domain｜>",
    "<｜title｜>",
    "<｜extracted_url｜>",
    "<｜read_url｜>",
)
"""Tokens that structure conversations; like the release's they are added tokens but not special ones."""
VOWELS, CONSONANTS = "aeiou", "tnshrdlcmwfgypbvkjxqz"


def tokenizer_json(vocab_size: int) -> dict[str, Any]:
    """The description that the ``tokenizers`` library reads: bytes, some pairs of letters, markers; every id is used.

    Raises ValueError where the vocabulary is smaller than bytes and markers.
    """
    special = (BOS, EOS, PAD)
    bytes_ = [_symbol(value) for value in range(256)]
    room = vocab_size - len(special) - len(bytes_) - len(MARKERS)
    pairs = [*(("Ġ", letter) for letter in (*VOWELS, *CONSONANTS)), *product(CONSONANTS, VOWELS)]
    pairs += [*product(VOWELS, CONSONANTS), *product(CONSONANTS, CONSONANTS)]
    if room < 0:
        raise ValueError(f"a vocabulary of {vocab_size} has no room for bytes and markers; give {vocab_size - room}")
    merges = pairs[:room]
    texts = [*special, *bytes_, *("".join(pair) for pair in merges), *MARKERS]
    texts += [f"<｜unused▁{index}｜>" for index in range(vocab_size - len(texts))]
    first_added = len(special) + len(bytes_) + len(merges)
    added = [*range(len(special)), *range(first_added, vocab_size)]
    return {
        "version": "1.0",
        "added_tokens": [_added(index, texts[index], index < len(special)) for index in added],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {text: index for index, text in enumerate(texts) if index < first_added},
            "merges": [list(pair) for pair in merges],
        },
    }


def tokenizer_config() -> dict[str, Any]:
    """What lies beside it: which tokens begin and end a text."""
    return {"bos_token": BOS, "eos_token": EOS, "pad_token": EOS, "add_bos_token": False, "model_max_length": 1 << 20}


def _added(index: int, text: str, special: bool) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": index, "content": text, **flags, "special": special}


def _symbol(value: int) -> str:
    """The printable stand-in of a byte in byte-level vocabularies: itself, or the next free code point from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    if value in printable:
        return chr(value)
    return chr(256 + sum(other not in printable for other in range(value)))
