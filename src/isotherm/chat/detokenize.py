"""Token ids to text, one at a time, always in whole characters."""

from __future__ import annotations

import codecs

from isotherm.chat.token_bytes import TokenTable

__all__ = ["Detokenizer", "TokenTable"]


class Detokenizer:
    """The text of one answer as it grows.

    Bytes that end inside a character wait for the next token. Bytes that can never become a
    character give U+FFFD, one for each broken sequence, whatever tokens they were spread over.
    Special tokens give no text.
    """

    def __init__(self, table: TokenTable) -> None:
        self._table = table
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        """The characters that this token completes, possibly none."""
        if token_id in self._table.special_ids:
            return ""
        return self._decoder.decode(self._table.bytes_of(token_id))

    def flush(self) -> str:
        """The end: a character that never became whole gives one U+FFFD."""
        return self._decoder.decode(b"", final=True)
