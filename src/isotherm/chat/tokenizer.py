"""Text to token ids and back, around the ``tokenizers`` library."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tokenizers

from isotherm.base.errors import SetupError
from isotherm.base.tokenizer import TokenizerSpec
from isotherm.chat.token_bytes import TokenTable, vocabulary_of


class Tokenizer:
    """One model's tokenizer; ``table`` gives the bytes of each token."""

    def __init__(self, spec: TokenizerSpec) -> None:
        self.table = TokenTable(spec)
        self._json = spec.tokenizer_json
        added = self.table.added_tokens
        self._all = _load(spec.tokenizer_json, added)
        controls = {token["content"] for token in added if token["special"] or token["id"] in spec.special_ids}
        marks = [token for token in added if token["content"] in controls or _is_markup(token["content"])]
        self.markup = Markup(marks, controls)
        self._text_only: tokenizers.Tokenizer | None = None

    @property
    def vocab_size(self) -> int:
        """One more than the highest id that stands for something."""
        return len(self.table)

    def encode(self, text: str) -> list[int]:
        """Ids of a text in which control tokens may be written out. No BOS is put before it."""
        return _ids(self._all, text)

    def encode_text(self, text: str) -> list[int]:
        """Ids of a text that is only text, whatever it spells."""
        if self._text_only is None:
            # Built when first needed: few conversations spell a control token.
            self._text_only = _load(*_without_markup(self._json, self.markup))
        return _ids(self._text_only, text)

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        """The text of a whole list of ids; bytes that are no UTF-8 give U+FFFD. IndexError for an unknown id."""
        hidden = self.table.special_ids if skip_special else frozenset()
        data = b"".join(self.table.bytes_of(token_id) for token_id in ids if token_id not in hidden)
        text = data.decode("utf-8", errors="replace")
        return text.removeprefix(" ") if self.table.drops_first_space else text


class Markup:
    """The tokens that give a conversation its structure: control tokens, and ``<think>`` and the like.

    ``ids`` maps their text to their id, ``controls`` are those that are control tokens.
    """

    def __init__(self, tokens: Sequence[Mapping[str, Any]], controls: set[str]) -> None:
        longest_first = sorted(tokens, key=lambda token: len(token["content"]), reverse=True)
        self.ids = {token["content"]: int(token["id"]) for token in longest_first}
        self.controls = frozenset(controls)
        alternatives = "|".join(map(re.escape, self.ids)) or r"(?!)"
        # A lookahead finds spellings that overlap, too.
        self._starts = re.compile(f"(?=({alternatives}))")
        self._whole = re.compile("|".join(map(_with_stripping, longest_first)) or r"(?!)")

    def spelled(self, text: str) -> Iterator[tuple[int, str]]:
        """Where a text spells which token."""
        for match in self._starts.finditer(text):
            yield match.start(), match[1]

    def begun(self, text: str) -> Iterator[tuple[int, str]]:
        """Where the end of a text begins to spell which token."""
        for token in self.ids:
            for length in range(min(len(token) - 1, len(text)), 0, -1):
                if text.endswith(token[:length]):
                    yield len(text) - length, token
                    break

    def split(self, text: str) -> Iterator[tuple[str, int | None]]:
        """The text in pieces: each token with its id, and what stands between them with None."""
        end = 0
        for match in self._whole.finditer(text):
            yield text[end : match.start()], None
            token = match[0] if match[0] in self.ids else match[0].strip()
            yield token, self.ids[token]
            end = match.end()
        yield text[end:], None


def _with_stripping(token: Mapping[str, Any]) -> str:
    """A token's pattern; some take the white space beside them with them."""
    before, after = (r"\s*" if token.get(side) else "" for side in ("lstrip", "rstrip"))
    return f"{before}{re.escape(token['content'])}{after}"


def _is_markup(text: str) -> bool:
    """Added tokens are also runs of spaces or words; those that structure a conversation are in brackets."""
    return len(text) > 2 and text[0] + text[-1] in ("<>", "[]")


def _ids(tokenizer: tokenizers.Tokenizer, text: str) -> list[int]:
    """Ids without the tokenizer's own additions.

    A batch of one: unlike ``encode`` it lets other Python threads run meanwhile and keeps no offsets
    (for 3.6 million characters 3 s against 24 s of a stopped interpreter).
    """
    (encoding,) = tokenizer.encode_batch_fast([text], add_special_tokens=False)
    return list(encoding.ids)


def _without_markup(tokenizer_json: bytes, markup: Markup) -> tuple[bytes, list[dict[str, Any]]]:
    """The same tokenizer, unable to recognise markup, and its added tokens.

    The library numbers added tokens that are outside the vocabulary in the order of the file, whatever
    id is written there. So those stay, under a text that nobody can know.
    """
    description = json.loads(tokenizer_json)
    vocabulary = set(vocabulary_of(description["model"]).values())
    secret = secrets.token_hex(16)
    kept = []
    for token in description["added_tokens"]:
        if token["content"] not in markup.ids:
            kept.append(token)
        elif token["content"] not in vocabulary:
            kept.append({**token, "content": f"{secret}-{token['id']}"})
    description["added_tokens"] = kept
    return json.dumps(description, ensure_ascii=False).encode(), kept


def _load(tokenizer_json: bytes, added: Sequence[Mapping[str, Any]]) -> tokenizers.Tokenizer:
    try:
        loaded = tokenizers.Tokenizer.from_buffer(tokenizer_json)
    # The library raises bare Exception for everything that it dislikes in the file.
    except Exception as error:
        raise SetupError(f"The model's tokenizer.json cannot be used: {error}.") from error
    for token in added:
        if loaded.token_to_id(token["content"]) != token["id"]:
            raise SetupError(
                f"The model's tokenizer.json gives {token['content']!r} the id {token['id']}, but it is loaded as "
                f"{loaded.token_to_id(token['content'])}: its added tokens are out of order."
            )
    return loaded
