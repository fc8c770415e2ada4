"""Logits in, next tokens out, each row by its own rules and its own random numbers."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence

import numpy as np
import torch

from isotherm.base.sampling import SamplingParams
from isotherm.engine.draw import BadLogits, Weights, draw, likeliest, weigh
from isotherm.engine.logprobs import score_token
from isotherm.engine.messages import TokenScore
from isotherm.engine.penalties import Penalties
from isotherm.engine.random import stream_key, uniform


class SamplingState:
    """One sequence's sampling rules, ready to apply, and what they remember of its answer.

    Args:
        params: the effective values.
        prompt: prompt token ids, for the repetition penalty.
        choice: separates the random streams of choices with one seed.
        end_ids: tokens that would end the answer; forbidden until ``min_tokens`` are generated.
    """

    def __init__(
        self, params: SamplingParams, prompt: Iterable[int], choice: int = 0, end_ids: Iterable[int] = ()
    ) -> None:
        self.params = params
        self.generated = 0
        self._key = stream_key(secrets.randbits(64) if params.seed is None else params.seed, choice)
        self._penalties = Penalties(params, prompt) if Penalties.wanted(params) else None
        self._bias_ids = np.fromiter(params.logit_bias.keys(), np.int64)
        self._bias = np.fromiter(params.logit_bias.values(), np.float32)
        self._end_ids = np.fromiter(end_ids, np.int64)

    def add(self, token: int) -> None:
        """``token`` was appended to the answer."""
        self.generated += 1
        if self._penalties is not None:
            self._penalties.add(token)

    def draw(self, weights: Weights) -> int:
        """The next token at random. Raises BadLogits."""
        return draw(weights, self.params, uniform(self._key, self.generated))

    def adjusted(self, logits: np.ndarray) -> np.ndarray:
        """Penalties, then bias, then the ends of answer that come too early on a float32 row [vocab].

        A copy if anything changes; ``logits`` is left as it was.
        """
        early = self.generated < self.params.min_tokens and len(self._end_ids)
        if self._penalties is None and not len(self._bias_ids) and not early:
            return logits
        logits = logits.copy()
        if self._penalties is not None:
            self._penalties.apply(logits)
        logits[self._bias_ids] += self._bias
        if early:
            logits[self._end_ids] = -np.inf
        return logits


class Sample:
    """A chosen token with its score, if that was asked for; or why none could be chosen."""

    __slots__ = ("error", "score", "token")

    def __init__(self, token: int, score: TokenScore | None = None, error: str | None = None) -> None:
        self.token = token
        self.score = score
        self.error = error


def sample(logits: torch.Tensor, states: Sequence[SamplingState]) -> list[Sample]:
    """One token for each row of ``logits`` (float32 [rows, vocab]).

    A row whose logits are not finite gives a Sample with ``error``; its neighbours are not affected.
    """
    rows = logits.cpu().numpy()
    adjusted = [state.adjusted(row) for row, state in zip(rows, states, strict=True)]
    drawn = [index for index, state in enumerate(states) if not state.params.greedy]
    weights: dict[int, Weights] = {}
    if drawn:
        temperatures = [states[index].params.temperature for index in drawn]
        weights = dict(zip(drawn, weigh(_stacked(rows, adjusted, drawn), temperatures), strict=True))
    return [_sample_row(rows[i], adjusted[i], weights.get(i), state) for i, state in enumerate(states)]


def _stacked(rows: np.ndarray, adjusted: list[np.ndarray], drawn: list[int]) -> np.ndarray:
    """The adjusted rows that are drawn from; the logits themselves when those are all rows, unchanged."""
    if len(drawn) == len(rows) and all(row.base is not None for row in adjusted):
        return rows
    return np.stack([adjusted[index] for index in drawn])


def _sample_row(raw: np.ndarray, adjusted: np.ndarray, weights: Weights | None, state: SamplingState) -> Sample:
    try:
        token = likeliest(adjusted) if weights is None else state.draw(weights)
    except BadLogits as error:
        return Sample(-1, error=f"the model's output is not finite: {error}")
    num_top = state.params.logprobs
    return Sample(token, None if num_top is None else score_token(raw, token, num_top))
