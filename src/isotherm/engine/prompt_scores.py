"""Log-probabilities of the prompt, for requests that echo it, and how they share logits with sampling."""

from __future__ import annotations

from typing import NamedTuple

import torch

from isotherm.engine.job import Job
from isotherm.engine.logprobs import score_token
from isotherm.engine.messages import TokenScore
from isotherm.engine.plan import Segment
from isotherm.engine.sequence import Sequence


class Rows(NamedTuple):
    """A forward's logits, taken apart.

    ``last`` float32 [sequences, vocab] predicts the next token of ``sequences``; ``prompts`` pairs
    segments that asked for all logits with theirs, float32 [length, vocab].
    """

    sequences: list[Sequence]
    last: torch.Tensor
    prompts: list[tuple[Segment, torch.Tensor]]


def split_rows(forward: list[Segment], logits: torch.Tensor) -> Rows:
    """Which rows of ``logits`` belong to whom; no copy unless a segment asked for all logits."""
    ending = [segment.sequence for segment in forward if segment.ends_context]
    if not any(segment.all_logits for segment in forward):
        return Rows(ending, logits, [])
    row, last, prompts = 0, [], []
    for segment in forward:
        count = segment.length if segment.all_logits else int(segment.ends_context)
        if segment.all_logits:
            prompts.append((segment, logits[row : row + count]))
        row += count
        if segment.ends_context:
            last.append(row - 1)
    return Rows(ending, logits[last], prompts)


def score_prompt(job: Job, segment: Segment, logits: torch.Tensor) -> None:
    """Score the prompt tokens that the segment predicts; the first prompt token has no score.

    Positions that were scored before a preemption are not scored again.
    """
    sequence, scores = job.sequence, job.prompt_scores
    if not scores:
        scores.append(TokenScore(sequence.tokens[0], None))
    for offset, row in enumerate(logits.cpu().numpy()):
        position = segment.start + offset + 1
        if position == len(scores) and position < sequence.prompt_length:
            scores.append(score_token(row, sequence.tokens[position], job.params.prompt_logprobs or 0))
    if len(scores) == sequence.prompt_length:
        sequence.wants_prompt_logits = False
