"""A tokenizer small enough to read: bytes, a few merges, control tokens, and ``<think>`` as an ordinary added token."""

import json

import pytest
from hypothesis import settings

from isotherm.base.tokenizer import TokenizerSpec
from isotherm.chat.token_bytes import byte_level_alphabet

# Machines that test are shared: a slow example says nothing.
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")

MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w"]
CONTROLS = ["<|start|>", "<|end|>", "<s>"]
ORDINARY = ["<think>", "</think>", "  "]
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|start|>{{ message.role }}\n{{ message.content | trim }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n<think>\n{% endif %}"
)


def added(token_id, text, special, **flags):
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": token_id, "content": text, "special": special, **plain, **flags}


def byte_level_description():
    alphabet = {byte: chr(code) for code, byte in byte_level_alphabet().items()}
    pieces = [alphabet[byte] for byte in range(256)] + [merge.replace(" ", "") for merge in MERGES]
    first = len(pieces)
    tokens = [(text, True) for text in CONTROLS] + [(text, False) for text in ORDINARY]
    return {
        "version": "1.0",
        "added_tokens": [added(first + index, text, special) for index, (text, special) in enumerate(tokens)],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {text: index for index, text in enumerate(pieces)}, "merges": list(MERGES)},
    }


def sentencepiece_description():
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "▁hi", "é", "日"]
    return {
        "version": "1.0",
        "added_tokens": [added(0, "<unk>", True)],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ],
        },
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "byte_fallback": True,
            "vocab": {text: index for index, text in enumerate(pieces)},
            "merges": [],
        },
    }


def spec_of(description, template=TEMPLATE, add_bos=False):
    ids = {token["content"]: token["id"] for token in description["added_tokens"]}
    return TokenizerSpec(
        tokenizer_json=json.dumps(description).encode(),
        chat_template=template,
        bos_token="<s>" if "<s>" in ids else None,
        bos_id=ids.get("<s>"),
        eos_token="<|end|>",
        eos_ids=(ids["<|end|>"],) if "<|end|>" in ids else (),
        special_ids=tuple(token["id"] for token in description["added_tokens"] if token["special"]),
        add_bos=add_bos,
    )


@pytest.fixture
def description():
    return byte_level_description()


@pytest.fixture
def spec(description):
    return spec_of(description)


@pytest.fixture
def sentencepiece():
    return spec_of(sentencepiece_description(), template=None)
