"""A request inside the engine: its sequence, its sampling, its text, and when it must end."""

from __future__ import annotations

from dataclasses import dataclass, field

from isotherm.base.outcome import Finish, FinishReason, Usage
from isotherm.base.sampling import SamplingParams
from isotherm.engine.messages import Piece, TokenScore
from isotherm.engine.sampler import Sample, SamplingState
from isotherm.engine.sequence import Sequence
from isotherm.engine.text_stream import TextStream


@dataclass(slots=True, eq=False)
class Job:
    """Everything the engine knows of one request.

    ``eos_ids`` end the answer silently; ``params.stop_token_ids`` do too and are named as the cause.
    ``max_generated`` is max_tokens cut to what the context holds. ``sent`` is the monotonic clock's reading
    when the server handed the request over, ``queue_seconds`` the wait from then to its first step.
    """

    sequence: Sequence
    params: SamplingParams
    state: SamplingState
    stream: TextStream
    eos_ids: frozenset[int]
    max_generated: int
    sent: float
    queue_seconds: float | None = None
    prompt_scores: list[TokenScore] = field(default_factory=list)

    def begin(self, now: float) -> None:
        """A step that starts at ``now`` computes some of it; only the first one counts, not one after preemption."""
        if self.queue_seconds is None:
            self.queue_seconds = now - self.sent

    def accept(self, sample: Sample) -> Finish | None:
        """Append a sampled token; returns how the answer ended, if it did."""
        if sample.error is not None:
            return self.end(FinishReason.ERROR, error=sample.error)
        self.sequence.tokens.append(sample.token)
        self.state.add(sample.token)
        if sample.token in self.params.stop_token_ids:
            self.stream.push_silent(sample.token, sample.score)
            return self.end(FinishReason.STOP, matched=sample.token)
        if sample.token in self.eos_ids:
            self.stream.push_silent(sample.token, sample.score)
            return self.end(FinishReason.STOP)
        matched = self.stream.push(sample.token, sample.score)
        if matched is not None:
            return self.end(FinishReason.STOP, matched=matched)
        if self.sequence.num_generated >= self.max_generated:
            return self.end(FinishReason.LENGTH)
        return None

    def end(self, reason: FinishReason, *, matched: str | int | None = None, error: str | None = None) -> Finish:
        """Release held text; what is released may itself complete a stop string."""
        if not isinstance(matched, str):
            stop = self.stream.close()
            if stop is not None:
                reason, matched = FinishReason.STOP, stop
        usage = Usage(self.sequence.prompt_length, self.sequence.num_generated, self.sequence.cached_tokens or 0)
        return Finish(reason, usage, matched, error, queue_seconds=self.queue_seconds)

    def take_piece(self, finish: Finish | None) -> Piece | None:
        """What this step adds for the client; None if all of it is still held back."""
        text, token_ids, lengths, scores = self.stream.take()
        if not token_ids and not text and finish is None:
            return None
        prompt_scores, self.prompt_scores = self.prompt_scores, []
        return Piece(self.sequence.id, text, token_ids, lengths, scores, prompt_scores, finish)
