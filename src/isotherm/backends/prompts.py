"""Prompts to token ids, and what a prompt says about the answer to come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from isotherm.base.errors import RequestError
from isotherm.base.request import ChatPrompt, Prompt, TextPrompt
from isotherm.base.tokenizer import TokenizerSpec
from isotherm.chat.call_formats import FORMATS, call_format
from isotherm.chat.calls import CallParser, Offer, forced, offer_of
from isotherm.chat.deepseek_v4 import THINK_TAGS
from isotherm.chat.encode import Encoder
from isotherm.chat.reasoning import CLOSE, OPEN, Opening, ReasoningSplitter, opening_of

LONG_TEXT = 16_384
"""Characters from which encoding leaves the event loop, which other streams need meanwhile."""


class Prepared(NamedTuple):
    """A prompt ready for the engine.

    ``opening`` is None where reasoning is not told from content, ``offer`` where no function may be called.
    ``call_format`` names the form in which this model calls functions, if it is known.
    """

    ids: list[int]
    opening: Opening | None = None
    offer: Offer | None = None
    call_format: str | None = None

    def splitter(self) -> ReasoningSplitter | None:
        return None if self.opening is None else ReasoningSplitter(self.opening)

    def call_parser(self) -> CallParser | None:
        if self.offer is None or self.call_format is None:
            return None
        return FORMATS[self.call_format](self.offer)

    @property
    def stop_after(self) -> str | None:
        """Stop strings are for the answer: they count only behind the end of thinking, if there is any."""
        return CLOSE if self.opening in (Opening.THINKING, Opening.UNDECIDED) else None

    @property
    def stop_after_if(self) -> str | None:
        """Whether there is any shows in how the answer begins, unless the prompt has begun it."""
        return OPEN if self.opening is Opening.UNDECIDED else None


class PromptEncoder:
    """One model's way from prompts to ids, and from ids to text."""

    def __init__(self, spec: TokenizerSpec) -> None:
        self._encoder = Encoder(spec)
        self._call_format = call_format(spec.chat_encoding)
        self._template = THINK_TAGS if spec.chat_encoding else spec.chat_template or ""

    async def prepare(self, prompt: Prompt) -> Prepared:
        """Raises RequestError if the prompt cannot be rendered or encoded."""
        if _size(prompt) >= LONG_TEXT:
            return await asyncio.to_thread(self._prepare, prompt)
        return self._prepare(prompt)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, control tokens written out; raises RequestError for an unknown id."""
        try:
            return self._encoder.tokenizer.decode(ids, skip_special=False)
        except IndexError as error:
            raise RequestError(
                f"token id {error} is outside the vocabulary of {self._encoder.tokenizer.vocab_size} tokens",
                param="tokens",
                code="invalid_token_id",
            ) from error

    def token_bytes(self, token_id: int) -> bytes:
        return self._encoder.tokenizer.table.bytes_of(token_id)

    def _prepare(self, prompt: Prompt) -> Prepared:
        encoded = self._encoder.encode(prompt)
        # Raw completions continue a text; whether that is thinking is the client's own business.
        if not isinstance(prompt, ChatPrompt):
            return Prepared(encoded.ids)
        opening = self._opening(prompt, encoded.text or "") if CLOSE in self._template else None
        return Prepared(encoded.ids, opening, offer_of(prompt), self._call_format)

    def _opening(self, prompt: ChatPrompt, text: str) -> Opening:
        """A prompt that has begun a call is beyond thinking."""
        return Opening.ANSWER if prompt.tools and forced(prompt) else opening_of(text, self._template)


def _size(prompt: Prompt) -> int:
    """About how many characters there are to encode."""
    if isinstance(prompt, TextPrompt):
        return len(prompt.text)
    if isinstance(prompt, ChatPrompt):
        return sum(len(str(part)) for part in (*prompt.messages, *prompt.tools))
    return 0
