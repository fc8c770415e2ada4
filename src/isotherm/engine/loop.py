"""The engine: schedule, run, sample, postprocess, again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol

import torch

from isotherm.base.outcome import FinishReason
from isotherm.base.stats import Stats
from isotherm.cache.integrity import check
from isotherm.cache.manager import BlockManager
from isotherm.cache.slots import SlotManager
from isotherm.engine.admission import check_request
from isotherm.engine.job import Job
from isotherm.engine.messages import Piece, Submit
from isotherm.engine.options import Limits
from isotherm.engine.plan import Segment
from isotherm.engine.prompt_scores import score_prompt, split_rows
from isotherm.engine.sampler import Sample, SamplingState, sample
from isotherm.engine.scheduler import Scheduler
from isotherm.engine.sequence import Sequence
from isotherm.engine.text_stream import Detokenizer, StopMatcher, TextStream


class Runner(Protocol):
    """Computes one forward: float32 logits [rows, vocab], rows in segment order (see ``plan.Segment``)."""

    def run(self, forward: list[Segment]) -> torch.Tensor: ...


class TextTools(Protocol):
    """Makes the text machinery of one answer; the engine does not care which tokenizer stands behind it."""

    eos_ids: frozenset[int]

    def detokenizer(self) -> Detokenizer: ...

    def stop_matcher(self, stops: tuple[str, ...], after: str | None, after_if: str | None) -> StopMatcher: ...


class Engine:
    """All requests of one model. Not thread-safe: one caller submits, aborts and steps."""

    def __init__(
        self,
        runner: Runner,
        blocks: BlockManager,
        limits: Limits,
        text: TextTools,
        *,
        slots: SlotManager | None = None,
        memory: Callable[[], int] = lambda: 0,
    ) -> None:
        self.limits = limits
        self.scheduler = Scheduler(blocks, limits, slots)
        self._runner = runner
        self._blocks = blocks
        self._slots = slots
        self._text = text
        self._memory = memory
        self._jobs: dict[int, Job] = {}
        self._counts = Stats(blocks_total=blocks.num_blocks, block_size=blocks.block_size)

    @property
    def has_work(self) -> bool:
        return bool(self._jobs)

    def submit(self, request: Submit) -> None:
        """Queue a sequence; raises RequestError if it can never be served."""
        check_request(request.tokens, request.sampling, self.limits)
        job = self._new_job(request)
        self._jobs[request.sequence] = job
        self.scheduler.add(job.sequence)

    def abort(self, sequence_id: int) -> None:
        """Stop at once and free the blocks; unknown or finished sequences are none of our business."""
        job = self._jobs.pop(sequence_id, None)
        if job is not None:
            self.scheduler.remove(job.sequence)
            self._counts.aborted_total += 1

    def step(self) -> list[Piece]:
        """Compute one round for everybody whose turn it is; returns what it adds to their answers."""
        started = time.monotonic()
        pieces: list[Piece] = []
        for forward in self.scheduler.schedule().forwards:
            for segment in forward:
                self._jobs[segment.sequence.id].begin(started)
            logits = self._runner.run(forward)
            pieces += self._postprocess(forward, logits)
        self._counts.steps_total += 1
        self._counts.busy_seconds_total += time.monotonic() - started
        return pieces

    def stats(self) -> Stats:
        """The counters as they are now; the same object every time."""
        counts, scheduler = self._counts, self.scheduler
        counts.running = len(scheduler.running)
        counts.waiting = len(scheduler.waiting)
        counts.blocks_active = self._blocks.num_active
        counts.blocks_cached = self._blocks.num_cached
        counts.evicted_blocks_total = self._blocks.evicted_total
        counts.preemptions_total = scheduler.preemptions
        counts.replayed_tokens_total = scheduler.replayed_tokens
        counts.prompt_tokens_total = scheduler.prompt_tokens
        counts.cached_tokens_total = scheduler.cached_tokens
        counts.memory_bytes = self._memory()
        if self._slots is not None:
            counts.snapshots = self._slots.num_kept
            counts.snapshots_most = self._slots.num_snapshots
            counts.snapshots_taken_total = self._slots.taken_total
            counts.snapshots_restored_total = self._slots.restored_total
        return counts

    def check_integrity(self) -> None:
        """Raise IntegrityError if the block pool contradicts itself."""
        check(self._blocks, [job.sequence.blocks for job in self._jobs.values()])

    def _new_job(self, request: Submit) -> Job:
        params = request.sampling
        eos_ids = frozenset() if params.ignore_eos else self._text.eos_ids
        end_ids = {token for token in (*eos_ids, *params.stop_token_ids) if 0 <= token < self.limits.vocab_size}
        prompt = list(request.tokens)
        return Job(
            sequence=Sequence(request.sequence, prompt, wants_prompt_logits=params.prompt_logprobs is not None),
            params=params,
            state=SamplingState(params, prompt, request.choice, end_ids),
            stream=self._new_stream(request),
            eos_ids=eos_ids,
            max_generated=min(params.max_tokens, self.limits.context - len(prompt)),
            sent=request.sent,
        )

    def _new_stream(self, request: Submit) -> TextStream:
        params, stops = request.sampling, None
        if params.stop:
            stops = self._text.stop_matcher(params.stop, request.stop_after, request.stop_after_if)
        return TextStream(self._text.detokenizer(), stops, params.min_tokens)

    def _postprocess(self, forward: list[Segment], logits: torch.Tensor) -> Iterator[Piece]:
        for segment in forward:
            self.scheduler.advance(segment)
        split = split_rows(forward, logits)
        for segment, rows in split.prompts:
            score_prompt(self._jobs[segment.sequence.id], segment, rows)
        jobs = [self._jobs[sequence.id] for sequence in split.sequences]
        for job, drawn in zip(jobs, sample(split.last, [job.state for job in jobs]), strict=True):
            piece = self._accept(job, drawn)
            if piece is not None:
                yield piece

    def _accept(self, job: Job, drawn: Sample) -> Piece | None:
        if job.max_generated > 0:
            finish = job.accept(drawn)
            self._counts.generated_tokens_total += 1
        else:
            finish = job.end(FinishReason.LENGTH)
        if finish is not None:
            self.scheduler.remove(job.sequence)
            del self._jobs[job.sequence.id]
            self._counts.finished_total += 1
        return job.take_piece(finish)
