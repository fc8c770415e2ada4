"""From options to an engine: checkpoint, network, pool, runner, loop."""

from __future__ import annotations

import time
from collections.abc import Callable

from isotherm.base.backend import Loaded, unwatched
from isotherm.base.errors import SetupError
from isotherm.engine import latent_parts, llama_parts
from isotherm.engine.loop import Engine
from isotherm.engine.machine import choose_device, resident_memory, return_freed_memory, use_threads
from isotherm.engine.options import EngineOptions, Limits
from isotherm.engine.service import Built
from isotherm.engine.text import ModelText
from isotherm.model.checkpoint import Checkpoint, open_checkpoint
from isotherm.model.deepseek_v4.config import DeepseekV4Config

_MEMORY_INTERVAL = 1.0
"""Seconds between looks at the process's memory, which cost a system call."""


def build(options: EngineOptions, loaded: Loaded = unwatched) -> Built:
    """Load the model, telling ``loaded`` how far that is, and make an engine of it; SetupError when that cannot be."""
    threads = use_threads(options.threads)
    checkpoint = open_checkpoint(options.model, offline=options.offline)
    max_model_len = _context_length(options.max_model_len, checkpoint)
    config, device = checkpoint.config, choose_device()
    if isinstance(config, DeepseekV4Config):
        parts = latent_parts.assemble(checkpoint, config, options, max_model_len, device, loaded)
    else:
        parts = llama_parts.assemble(checkpoint, config, options, max_model_len, device, loaded)
    return_freed_memory()
    blocks = parts.blocks
    limits = Limits(
        max_model_len=max_model_len,
        pool_tokens=blocks.num_blocks * blocks.block_size,
        max_num_seqs=options.max_num_seqs,
        max_queue=options.max_queue,
        vocab_size=parts.vocab_size,
        deterministic=options.deterministic,
        independent_rows=parts.independent_rows,
        block_size=blocks.block_size,
    )
    engine = Engine(
        parts.runner, blocks, limits, ModelText(checkpoint.tokenizer), slots=parts.slots,
        memory=_sampled(resident_memory),
    )  # fmt: skip
    details = {**parts.details, "threads": threads, "memory_bytes": resident_memory()}
    if checkpoint.notices:
        details["notices"] = list(checkpoint.notices)
    return Built(engine, details)


def _context_length(wanted: int | None, checkpoint: Checkpoint) -> int:
    most = checkpoint.config.max_position_embeddings
    if wanted is not None and wanted > most:
        raise SetupError(
            f"--max-model-len {wanted} is more than the {most} positions that {checkpoint.name} was made for; "
            f"give at most {most}"
        )
    return wanted or most


def _sampled(read: Callable[[], int]) -> Callable[[], int]:
    """``read``, but at most once a second."""
    value, due = 0, 0.0

    def latest() -> int:
        nonlocal value, due
        now = time.monotonic()
        if now >= due:
            value, due = read(), now + _MEMORY_INTERVAL
        return value

    return latest
