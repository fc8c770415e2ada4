"""The formats in which models write function calls. A new one is a parser and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from isotherm.chat import deepseek_v4
from isotherm.chat.calls import MakeParser
from isotherm.chat.dsml import DsmlParser

FORMATS: Mapping[str, MakeParser] = {deepseek_v4.ENCODING: DsmlParser}
"""By the name of the layout of conversations (``TokenizerSpec.chat_encoding``)."""


def call_format(chat_encoding: str | None) -> str | None:
    """The format of a model with this layout; None when its calls are not read."""
    return chat_encoding if chat_encoding in FORMATS else None
