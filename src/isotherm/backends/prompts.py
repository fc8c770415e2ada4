"""Prompts in their three forms to token ids, and what the prompt says about the answer to come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from isotherm.base.errors import RequestError
from isotherm.base.request import ChatPrompt, Prompt, TextPrompt
from isotherm.base.tokenizer import TokenizerSpec
from isotherm.chat.reasoning import CLOSE, Opening, ReasoningSplitter, opening_of
from isotherm.chat.template import ChatTemplate
from isotherm.chat.tokenizer import Tokenizer


class Encoded(NamedTuple):
    """A prompt ready for the engine. ``opening`` is None where reasoning is not told from content."""

    ids: list[int]
    opening: Opening | None = None

    def splitter(self) -> ReasoningSplitter | None:
        return None if self.opening is None else ReasoningSplitter(self.opening)

    @property
    def stop_after(self) -> str | None:
        """Stop strings are for the answer: while the model thinks they do not count."""
        return CLOSE if self.opening is Opening.THINKING else None


class PromptEncoder:
    """One model's way from text to ids and back."""

    def __init__(self, spec: TokenizerSpec) -> None:
        self._spec = spec
        self._tokenizer = Tokenizer(spec)
        self._template = (
            ChatTemplate(spec.chat_template, bos_token=spec.bos_token, eos_token=spec.eos_token)
            if spec.chat_template is not None
            else None
        )

    def encode(self, prompt: Prompt) -> Encoded:
        """Token ids; raises RequestError if the prompt cannot be rendered."""
        if isinstance(prompt, ChatPrompt):
            return self._encode_chat(prompt)
        if isinstance(prompt, TextPrompt):
            bos = [self._spec.bos_id] if self._spec.add_bos and self._spec.bos_id is not None else []
            return Encoded(bos + self._tokenizer.encode(prompt.text))
        return Encoded(list(prompt.ids))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, control tokens written out; raises RequestError for an unknown id."""
        try:
            return self._tokenizer.decode(ids, skip_special=False)
        except IndexError as error:
            raise RequestError(f"there is no token {error}", param="tokens", code="invalid_token_id") from error

    def token_bytes(self, token_id: int) -> bytes:
        return self._tokenizer.table.bytes_of(token_id)

    def _encode_chat(self, prompt: ChatPrompt) -> Encoded:
        if self._template is None:
            raise RequestError(
                "this model has no chat template; use /v1/completions", param="messages", code="no_chat_template"
            )
        text = self._template.render(
            prompt.messages,
            tools=prompt.tools,
            add_generation_prompt=prompt.add_generation_prompt,
            variables=prompt.template_kwargs,
        )
        thinks = CLOSE in (self._spec.chat_template or "")
        opening = opening_of(text, self._spec.chat_template) if thinks else None
        return Encoded(self._tokenizer.encode(text), opening)
