"""Which tokens a sequence has used, kept up to date token by token, and the penalties that follow."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from isotherm.base.sampling import SamplingParams


class TokenCounts:
    """Distinct tokens in order of first use with their counts: arrays that grow by doubling."""

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self._slots: dict[int, int] = {}
        self._ids = np.empty(64, np.int64)
        self._counts = np.zeros(64, np.float32)
        for token in tokens:
            self.add(token)

    def add(self, token: int) -> None:
        slot = self._slots.setdefault(token, len(self._slots))
        if slot == len(self._ids):
            self._ids = np.concatenate([self._ids, np.empty_like(self._ids)])
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._ids[slot] = token
        self._counts[slot] += 1

    @property
    def ids(self) -> np.ndarray:
        """int64 [distinct tokens]."""
        return self._ids[: len(self._slots)]

    @property
    def counts(self) -> np.ndarray:
        """float32, beside ``ids``."""
        return self._counts[: len(self._slots)]


class Penalties:
    """Repetition penalty over prompt and answer (as in CTRL), the other two over the answer (as in OpenAI's API)."""

    def __init__(self, params: SamplingParams, prompt: Iterable[int]) -> None:
        self._repetition = np.float32(params.repetition_penalty)
        self._presence = np.float32(params.presence_penalty)
        self._frequency = np.float32(params.frequency_penalty)
        self._seen = TokenCounts(prompt) if params.repetition_penalty != 1 else None
        self._answered = TokenCounts() if params.presence_penalty or params.frequency_penalty else None

    @staticmethod
    def wanted(params: SamplingParams) -> bool:
        return bool(params.repetition_penalty != 1 or params.presence_penalty or params.frequency_penalty)

    def add(self, token: int) -> None:
        """``token`` was appended to the answer."""
        if self._seen is not None:
            self._seen.add(token)
        if self._answered is not None:
            self._answered.add(token)

    def apply(self, logits: np.ndarray) -> None:
        """Change float32 logits [vocab] in place."""
        if self._seen is not None:
            ids = self._seen.ids
            values = logits[ids]
            logits[ids] = np.where(values > 0, values / self._repetition, values * self._repetition)
        if self._answered is not None:
            logits[self._answered.ids] -= self._presence + self._frequency * self._answered.counts
