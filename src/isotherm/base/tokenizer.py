"""What a model says about its text: a tokenizer as data, small enough to send to another process."""

from __future__ import annotations

from dataclasses import dataclass

from isotherm.base.effort import EffortTexts


@dataclass(frozen=True, slots=True)
class TokenizerSpec:
    """Everything that is needed to turn text into token ids and back.

    ``tokenizer_json`` is the file format of the ``tokenizers`` library. ``eos_ids`` are all ids that
    end an answer, ascending. ``special_ids`` are control tokens: never produced from a user's text,
    never shown. ``add_bos`` says whether raw text starts with ``bos_id`` when it was trained that way;
    a chat template writes its own. ``chat_encoding`` names a layout of conversations that is no template,
    ``effort_texts`` what effort words mean in it.
    """

    tokenizer_json: bytes
    chat_template: str | None
    bos_token: str | None
    bos_id: int | None
    eos_token: str | None
    eos_ids: tuple[int, ...]
    special_ids: tuple[int, ...]
    add_bos: bool
    chat_encoding: str | None = None
    effort_texts: EffortTexts | None = None

    @property
    def takes_messages(self) -> bool:
        """Whether there is a way from messages to a prompt."""
        return self.chat_template is not None or self.chat_encoding is not None
