"""The model's text machinery, made anew for each answer."""

from __future__ import annotations

from collections.abc import Sequence

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

    def stop_matcher(
        self, stops: Sequence[str], after: str | None = None, after_if: str | None = None
    ) -> StopMatcher | OpeningStopMatcher:
        """See ``messages.Submit`` for ``after`` and ``after_if``."""
        if after is not None and after_if is not None:
            return OpeningStopMatcher(stops, after, after_if)
        return StopMatcher(stops, after)


class OpeningStopMatcher:
    """Stop strings that wait for ``after``, but only in an answer that begins with ``opening``.

    The beginning, without white space before it, is held back until it has shown which it is.
    """

    def __init__(self, stops: Sequence[str], after: str, opening: str) -> None:
        self._stops = stops
        self._after = after
        self._opening = opening
        self._beginning = ""
        self._matcher: StopMatcher | None = None

    def push(self, text: str) -> tuple[str, str | None]:
        """As ``StopMatcher.push``."""
        if self._matcher is not None:
            return self._matcher.push(text)
        self._beginning += text
        seen = self._beginning.lstrip()
        opened = seen.startswith(self._opening)
        if not opened and self._opening.startswith(seen):
            return "", None
        self._matcher = StopMatcher(self._stops, self._after if opened else None)
        return self._matcher.push(self._beginning)

    def flush(self) -> str:
        """The end came without a stop string: what was held back."""
        return self._beginning if self._matcher is None else self._matcher.flush()
