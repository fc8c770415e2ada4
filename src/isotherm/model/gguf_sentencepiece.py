"""The parts of a ``tokenizer.json`` for a SentencePiece vocabulary (``tokenizer.ggml.model`` ``llama``).

Such a file has scores instead of merges: of all neighbours whose union is a token, the union with
the best score is merged first. As a list of merges that is every way to cut a token in two other
tokens, best token first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

SPACE = "\u2581"


def merges_from_scores(tokens: Sequence[str], scores: Sequence[float], mergeable: Sequence[bool]) -> list[list[str]]:
    """Pairs of tokens in the order in which they merge. Only ``mergeable`` tokens are put together or taken apart."""
    known = {token for token, can in zip(tokens, mergeable, strict=True) if can}
    ranked = sorted((index for index, can in enumerate(mergeable) if can), key=lambda index: -scores[index])
    return [pair for index in ranked for pair in _cuts(tokens[index], known)]


def _cuts(token: str, known: set[str]) -> Iterator[list[str]]:
    for place in range(1, len(token)):
        if token[:place] in known and token[place:] in known:
            yield [token[:place], token[place:]]


def sentencepiece_parts(
    tokens: Sequence[str], merges: list[list[str]], unknown: str | None, prefix: bool
) -> dict[str, Any]:
    """Normaliser, model and decoder; ``prefix`` puts a space before every text, as most of these models want."""
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    prepend = [{"type": "Prepend", "prepend": SPACE}] if prefix else []
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []
    back = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    return {
        "normalizer": {"type": "Sequence", "normalizers": [*prepend, spaces]},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}, *strip]},
        "model": {
            "type": "BPE",
            "unk_token": unknown,
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": {token: token_id for token_id, token in enumerate(tokens)},
            "merges": merges,
        },
    }
