"""Nano's tokenizer: byte-level BPE over what the skills and the encoder's own texts say, with V4's markers behind it.

    python -m training.tokenizer FOLDER

Digits stand alone, so that sums can be worked out; made-up names fall into syllables, since no name is frequent.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from isotherm.bench.skills.source import Source, Split
from isotherm.model.deepseek_v4.tiny_tokenizer import BOS, EOS, MARKERS, PAD, tokenizer_config
from isotherm.model.deepseek_v4.tiny_tokenizer import tokenizer_json as tiny_tokenizer_json
from training.corpus import stream
from training.layout import Layout

VOCAB_SIZE = 2048
ITEMS = 6000
"""Of the training split; more change little."""
SEED = 1
WORD = r"\p{Lu}\p{Ll}*| ?\p{Ll}+|\p{Nd}| ?[^\s\p{L}\p{Nd}]+|\s+"
"""What is tokenized by itself. A space belongs to a word in small letters; a name is the same tokens wherever it is,
in a sentence, at a line's start, in quotes and inside an identifier: to copy it is to copy its tokens."""


def tokenizer_json(vocab_size: int = VOCAB_SIZE, items: int = ITEMS) -> dict[str, Any]:
    """The description that the ``tokenizers`` library reads; the same for the same arguments.

    Ids: begin, end and padding, bytes, merges, then the other markers.
    """
    special = (BOS, EOS, PAD)
    trained = _train(vocab_size - len(special) - len(MARKERS), items)
    texts = [*special, *sorted(trained["vocab"], key=trained["vocab"].__getitem__), *MARKERS]
    first = len(texts) - len(MARKERS)
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [*range(len(special)), *range(first, len(texts))]
    return {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": texts[i], **flags, "special": i < len(special)} for i in added],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": WORD}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
            ],
        },
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {text: index for index, text in enumerate(texts[:first])},
            "merges": trained["merges"],
        },
    }


def write(folder: Path, vocab_size: int = VOCAB_SIZE, items: int = ITEMS) -> bytes:
    """Write ``tokenizer.json`` and what lies beside it; returns the former."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(tokenizer_json(vocab_size, items), ensure_ascii=False, indent=1) + "\n"
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    config = json.dumps(tokenizer_config(), ensure_ascii=False, indent=2) + "\n"
    (folder / "tokenizer_config.json").write_text(config, encoding="utf-8")
    return text.encode()


def _train(size: int, items: int) -> dict[str, Any]:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORD), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=sorted(alphabet), show_progress=False)
    tokenizer.train_from_iterator(_texts(items), trainer)
    model: dict[str, Any] = json.loads(tokenizer.to_str())["model"]
    return model


def _texts(items: int) -> Iterator[str]:
    """What stands between markers, in prompts and answers."""
    layout = Layout(json.dumps(tiny_tokenizer_json(512)).encode())
    marker = re.compile("|".join(re.escape(text) for text in (BOS, EOS, PAD, *MARKERS)))
    for item in islice(stream(Source(SEED, Split.TRAIN), 0.5), items):
        yield from filter(None, marker.split(layout.whole(item)[1]))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
