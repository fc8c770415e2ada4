"""A prompt in any of its forms becomes token ids.

**Nobody can forge a turn.** Text of a client must not become a control token, even if it spells one
(``<|im_end|>``). Where a message spells an added token, a marker is put inside that spelling before
the template is rendered: a noncharacter of Unicode that occurs nowhere in the request. Templates
may then trim, compare or split the text as they do otherwise. In the rendered prompt only the
template's own control tokens are still whole: they become ids, everything between them is encoded
by a tokenizer that knows no control tokens, after the marker is removed. A prompt in which nothing
is spelled takes the short way: it is encoded as Hugging Face would.

Two limits, on purpose: what an *assistant* message says may spell tokens that are not control
tokens (``<think>``), because templates look for them in old answers; and a template that searches
*user* text for such spellings (``<tool_response>``) does not find them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

from isotherm.base.errors import RequestError
from isotherm.base.request import ChatPrompt, Prompt, TextPrompt
from isotherm.base.tokenizer import TokenizerSpec
from isotherm.chat import deepseek_v4
from isotherm.chat.template import ChatTemplate
from isotherm.chat.tokenizer import Markup, Tokenizer

MARKERS = [chr(code) for code in range(0xFDD0, 0xFDF0)]
"""Code points that Unicode reserves for the inside of programs."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A prompt as ids. ``text`` is the rendered or given text, None for a prompt of ids.

    ``duplicate_bos`` tells that the text brought more than one BOS, of which one was kept.
    """

    ids: list[int]
    text: str | None
    duplicate_bos: bool = False


class Encoder:
    """Encodes for one model. SetupError when its chat template is broken."""

    def __init__(self, spec: TokenizerSpec) -> None:
        self.tokenizer = Tokenizer(spec)
        self._spec = spec
        self._template, self._deepseek_v4 = None, None
        if spec.chat_encoding == deepseek_v4.ENCODING:
            assert spec.effort_texts is not None
            self._deepseek_v4 = deepseek_v4.DeepseekV4Chat(spec.tokenizer_json, spec.effort_texts)
        if spec.chat_template is not None:
            self._template = ChatTemplate(spec.chat_template, bos_token=spec.bos_token, eos_token=spec.eos_token)

    def encode(self, prompt: Prompt) -> Encoded:
        """Ids with exactly one BOS at the start where the model wants one. RequestError names what is wrong."""
        if isinstance(prompt, ChatPrompt):
            return self._encode_chat(prompt)
        if isinstance(prompt, TextPrompt):
            return self._with_one_bos(self.tokenizer.encode(prompt.text), prompt.text)
        return Encoded(self._checked(prompt.ids), None)

    def _encode_chat(self, prompt: ChatPrompt) -> Encoded:
        if self._deepseek_v4 is not None:
            return Encoded(*self._deepseek_v4.encode(prompt))
        if self._template is None:
            raise RequestError(
                "This model has no chat template, so it cannot take messages. Use /v1/completions with a prompt.",
                code="no_chat_template",
            )
        guard = _Guard(self.tokenizer.markup, prompt)
        text = self._template.render(
            guard.messages,
            tools=guard.tools,
            add_generation_prompt=prompt.add_generation_prompt,
            variables=guard.variables,
        )
        if guard.marker is None:
            return self._with_one_bos(self.tokenizer.encode(text), text)
        ids = list(_encode_marked(self.tokenizer, text, guard.marker))
        return self._with_one_bos(ids, text.replace(guard.marker, ""))

    def _with_one_bos(self, ids: list[int], text: str) -> Encoded:
        bos = self._spec.bos_id
        if bos is None:
            return Encoded(ids, text)
        extra = 0
        while ids[extra : extra + 2] == [bos, bos] and self._spec.add_bos:
            extra += 1
        if self._spec.add_bos and ids[:1] != [bos]:
            ids = [bos, *ids]
        return Encoded(ids[extra:], text, duplicate_bos=extra > 0)

    def _checked(self, ids: Sequence[int]) -> list[int]:
        size = self.tokenizer.vocab_size
        for token_id in ids:
            if not 0 <= token_id < size:
                raise RequestError(
                    f"Token id {token_id} is outside this model's vocabulary of {size} tokens.", param="prompt"
                )
        return list(ids)


class _Guard:
    """A chat prompt whose spelled tokens are broken by ``marker``; None when it spells none."""

    def __init__(self, markup: Markup, prompt: ChatPrompt) -> None:
        self._markup = markup
        self.marker: str | None = None
        self.messages: Sequence[Mapping[str, Any]] = prompt.messages
        self.tools: Sequence[Mapping[str, Any]] = prompt.tools
        self.variables: Mapping[str, Any] = prompt.template_kwargs
        texts = list(_texts([prompt.messages, prompt.tools, prompt.template_kwargs]))
        if any(self._breaks(text, controls_only=False) for text in texts):
            self.marker = _unused_marker(texts)
            self.messages = [self._broken(message, message.get("role") == "assistant") for message in prompt.messages]
            self.tools = self._broken(prompt.tools)
            self.variables = self._broken(prompt.template_kwargs)

    def _broken(self, value: Any, controls_only: bool = False) -> Any:
        """The same structure with every text in it broken."""
        if isinstance(value, str):
            return self._break(value, controls_only)
        if isinstance(value, Mapping):
            return {key: self._broken(item, controls_only) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._broken(item, controls_only) for item in value]
        return value

    def _break(self, text: str, controls_only: bool) -> str:
        assert self.marker is not None
        places = [0, *sorted(self._breaks(text, controls_only)), len(text)]
        return self.marker.join(text[start:end] for start, end in pairwise(places))

    def _breaks(self, text: str, controls_only: bool) -> set[int]:
        """Where the marker goes: behind the first character of each token that is spelled, or begun at the end.

        One begun at the end could be completed by what the template writes behind it.
        """
        found = chain(self._markup.spelled(text), self._markup.begun(text))
        return {start + 1 for start, token in found if not controls_only or token in self._markup.controls}


def _encode_marked(tokenizer: Tokenizer, text: str, marker: str) -> Iterator[int]:
    for piece, token_id in tokenizer.markup.split(text):
        if token_id is not None:
            yield token_id
        elif piece:
            yield from tokenizer.encode_text(piece.replace(marker, ""))


def _texts(value: Any) -> Iterator[str]:
    """Every text in a structure, keys of mappings too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.keys()))
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _unused_marker(texts: Sequence[str]) -> str:
    for marker in MARKERS:
        if not any(marker in text for text in texts):
            return marker
    raise RequestError(
        "The messages hold all of the Unicode noncharacters U+FDD0 to U+FDEF beside the text of control tokens; "
        "remove one of them.",
        param="messages",
    )
