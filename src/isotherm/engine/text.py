"""The model's text machinery, made anew for each answer."""

from __future__ import annotations

from isotherm.base.tokenizer import TokenizerSpec
from isotherm.chat.detokenize import Detokenizer, TokenTable
from isotherm.chat.stop import StopMatcher


class ModelText:
    """Detokenizers and stop matchers for one tokenizer."""

    def __init__(self, spec: TokenizerSpec) -> None:
        self._table = TokenTable(spec)
        self.eos_ids = frozenset(spec.eos_ids)

    def detokenizer(self) -> Detokenizer:
        return Detokenizer(self._table)

    def stop_matcher(self, stops: tuple[str, ...], after: str | None) -> StopMatcher:
        return StopMatcher(stops, after=after)
