"""A scripted backend whose model writes raw completions of DeepSeek-V4, read as the embedded one reads them."""

from __future__ import annotations

from typing import Any

from isotherm.backends.assembly import Assembler
from isotherm.backends.prompts import Prepared
from isotherm.base.outcome import Finish, FinishReason, Usage
from isotherm.base.request import ChatPrompt
from isotherm.chat.calls import offer_of
from isotherm.chat.reasoning import Opening
from isotherm.engine.messages import Piece, TokenScore
from support.completions import pieces_of
from support.scripted_backend import Script, ScriptedBackend

FORMAT = "deepseek-v4"


def writes(
    text: str,
    *,
    size: int = 7,
    finish: FinishReason = FinishReason.STOP,
    opening: Opening = Opening.ANSWER,
    matched: str | None = None,
) -> Script:
    """The model writes ``text``, ``size`` characters a token."""

    def script(turn: Any) -> Any:
        assert isinstance(turn.prompt, ChatPrompt)
        prepared = Prepared([], opening, offer_of(turn.prompt), FORMAT)
        assembler = Assembler(lambda token: b"%d" % token, prepared.splitter(), prepared.call_parser())
        tokens = pieces_of(text, [size])
        for place, token in enumerate(tokens):
            scores = [] if turn.sampling.logprobs is None else [TokenScore(place, -0.5, [])]
            end = Finish(finish, Usage(0, len(tokens)), matched) if place == len(tokens) - 1 else None
            yield from assembler.deltas(Piece(0, token, [place], [len(token)], scores, [], end))

    return script


def calling(text: str, **how: Any) -> ScriptedBackend:
    """A backend that offers calls and writes ``text``."""
    return ScriptedBackend(writes(text, **how), call_format=FORMAT)
