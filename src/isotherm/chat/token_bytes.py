"""The bytes that each token stands for, read from a ``tokenizer.json`` without the tokenizers library.

Text is put together from bytes, not from decoded tokens: one character may be spread over several
tokens, and only bytes can be joined without loss. Two families are understood. Byte-level BPE
(GPT-2, Llama 3, Qwen) writes every byte as a printable character. SentencePiece (Llama 2, Mistral)
writes a space as U+2581 and a byte outside its vocabulary as ``<0xAB>``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from isotherm.base.errors import SetupError
from isotherm.base.tokenizer import TokenizerSpec

SENTENCEPIECE_SPACE = "\u2581"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


def byte_level_alphabet() -> dict[int, int]:
    """Code point to byte of the GPT-2 alphabet, for ``str.translate``.

    Printable Latin-1 characters stand for themselves; the other 68 bytes, in order, for U+0100 on.
    """
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {**{byte: byte for byte in printable}, **{0x100 + index: byte for index, byte in enumerate(others)}}


class TokenTable:
    """Bytes of every token id. ``special_ids`` are control tokens, which people never see.

    ``drops_first_space`` says that the tokenizer puts a space before a text, which therefore is no
    part of the text that a whole list of ids stands for. ``added_tokens`` are the file's own entries.
    """

    def __init__(self, spec: TokenizerSpec) -> None:
        self.special_ids = frozenset(spec.special_ids)
        self._alphabet = byte_level_alphabet()
        self._known: dict[int, bytes] = {}
        try:
            self._read(json.loads(spec.tokenizer_json))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SetupError(f"The model's tokenizer.json cannot be understood ({error!r}).") from error

    def _read(self, description: Mapping[str, Any]) -> None:
        decoders = {decoder["type"]: decoder for decoder in _flat(description.get("decoder"))}
        self._byte_level = "ByteLevel" in decoders
        if not self._byte_level and not decoders.keys() & {"ByteFallback", "Metaspace", "Replace"}:
            raise SetupError(
                f"The tokenizer's decoder ({', '.join(decoders) or 'none'}) is not supported; "
                "byte-level BPE and SentencePiece are."
            )
        prepends = decoders.get("Metaspace", {}).get("prepend_scheme") in ("always", "first")
        self.drops_first_space = prepends or "Strip" in decoders
        self.added_tokens: list[dict[str, Any]] = description.get("added_tokens") or []
        added = {token["id"]: token["content"] for token in self.added_tokens}
        tokens = {**vocabulary_of(description["model"]), **added}
        self._texts: list[str | None] = [None] * (max(tokens, default=-1) + 1)
        for token_id, text in tokens.items():
            self._texts[token_id] = text
        self._added = frozenset(added)

    def __len__(self) -> int:
        return len(self._texts)

    def bytes_of(self, token_id: int) -> bytes:
        """Empty for an id that no token has (padding of the vocabulary); IndexError outside of it."""
        known = self._known.get(token_id)
        if known is None:
            known = self._known[token_id] = self._compute(token_id)
        return known

    def _compute(self, token_id: int) -> bytes:
        if token_id < 0:
            raise IndexError(token_id)
        text = self._texts[token_id]
        if text is None:
            return b""
        if token_id in self._added:
            return text.encode()
        if not self._byte_level:
            match = _BYTE_TOKEN.fullmatch(text)
            return bytes.fromhex(match[1]) if match else text.replace(SENTENCEPIECE_SPACE, " ").encode()
        try:
            return text.translate(self._alphabet).encode("latin-1")
        except UnicodeEncodeError:
            # A vocabulary entry that is not written in the alphabet stands for its own text.
            return text.encode()


def _flat(decoder: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """A decoder, or those that a sequence is made of."""
    if decoder is None:
        return
    if decoder["type"] == "Sequence":
        for part in decoder["decoders"]:
            yield from _flat(part)
    else:
        yield decoder


def vocabulary_of(model: Mapping[str, Any]) -> dict[int, str]:
    """Id to token of a BPE (mapping) or Unigram (list of pairs) model."""
    vocabulary = model["vocab"]
    if isinstance(vocabulary, Mapping):
        return {token_id: token for token, token_id in vocabulary.items()}
    return {token_id: entry[0] for token_id, entry in enumerate(vocabulary)}
