"""Log-probabilities of raw logits: before temperature, penalties, bias or truncation."""

from __future__ import annotations

import numpy as np

from isotherm.engine.messages import TokenScore


def score_token(logits: np.ndarray, token: int, num_top: int) -> TokenScore:
    """How likely ``token`` was, with its ``num_top`` likeliest rivals, likeliest first.

    ``logits`` is a float32 row [vocab]; natural logarithms.
    """
    highest = logits.max()
    shift = float(highest) + float(np.log(np.exp(logits - highest).sum(dtype=np.float64)))
    rivals = [(int(index), float(logits[index]) - shift) for index in _top(logits, num_top)]
    return TokenScore(token, float(logits[token]) - shift, rivals)


def _top(logits: np.ndarray, count: int) -> np.ndarray:
    """Ids of the ``count`` largest logits; ties go to the lower id."""
    if count <= 0:
        return np.empty(0, np.int64)
    count = min(count, len(logits))
    threshold = np.partition(logits, -count)[-count]
    ids = np.flatnonzero(logits >= threshold)
    return ids[np.argsort(-logits[ids], kind="stable")][:count]
