"""From options to an engine: checkpoint, network, pool, runner, loop."""

from __future__ import annotations

import time
from collections.abc import Callable

from isotherm.base.block import BLOCK_SIZE
from isotherm.base.errors import SetupError
from isotherm.cache.manager import BlockManager
from isotherm.cache.pool import KVPool
from isotherm.engine.loop import Engine
from isotherm.engine.machine import (
    choose_device,
    choose_dtype,
    kv_blocks,
    resident_memory,
    return_freed_memory,
    use_threads,
)
from isotherm.engine.options import EngineOptions, Limits
from isotherm.engine.runner import Runner
from isotherm.engine.service import Built
from isotherm.engine.text import ModelText
from isotherm.engine.warm_up import warm_up
from isotherm.model.checkpoint import Checkpoint, open_checkpoint
from isotherm.model.llama import Llama
from isotherm.model.llama_loader import load_llama

_MEMORY_INTERVAL = 1.0
"""Seconds between looks at the process's memory, which cost a system call."""


def build(options: EngineOptions) -> Built:
    """Load the model and make an engine of it; raises SetupError when that cannot be."""
    threads = use_threads(options.threads)
    checkpoint = open_checkpoint(options.model, offline=options.offline)
    max_model_len = _context_length(options.max_model_len, checkpoint)
    device = choose_device()
    model = load_llama(
        checkpoint.config,
        checkpoint.tensors,
        dtype=choose_dtype(options.dtype, device),
        max_model_len=max_model_len,
        keep_quantised=options.dtype == "auto",
        deterministic=options.deterministic,
        max_decode_rows=options.max_num_seqs,
        device=device,
    )
    pool, max_cached = _pool(model, options, max_model_len), None
    if options.kv_memory is None:
        max_cached = _retained_blocks(model, checkpoint, max_model_len)
    runner = Runner(model, pool)
    warm_up(runner)
    return_freed_memory()
    limits = Limits(
        max_model_len=max_model_len,
        pool_tokens=pool.num_blocks * BLOCK_SIZE,
        max_num_seqs=options.max_num_seqs,
        max_queue=options.max_queue,
        vocab_size=checkpoint.config.vocab_size,
        deterministic=options.deterministic,
        independent_rows=model.independent_rows,
    )
    engine = Engine(
        runner,
        BlockManager(pool.num_blocks, BLOCK_SIZE, max_cached),
        limits,
        ModelText(checkpoint.tokenizer),
        memory=_sampled(resident_memory),
    )
    return Built(engine, _details(model, pool, threads))


def _context_length(wanted: int | None, checkpoint: Checkpoint) -> int:
    most = checkpoint.config.max_position_embeddings
    if wanted is not None and wanted > most:
        raise SetupError(
            f"--max-model-len {wanted} is more than the {most} positions that {checkpoint.name} was made for; "
            f"give at most {most}"
        )
    return wanted or most


def _pool(model: Llama, options: EngineOptions, max_model_len: int) -> KVPool:
    shapes, layers = model.kv_block_shapes(), model.config.num_layers
    block_bytes = KVPool.bytes_per_block(shapes, layers, model.dtype)
    useful = options.max_num_seqs * -(-max_model_len // BLOCK_SIZE)
    num_blocks = kv_blocks(options.kv_memory, block_bytes, useful, model.device)
    return KVPool(num_blocks, BLOCK_SIZE, shapes, layers, model.dtype, model.device)


def _retained_blocks(model: Llama, checkpoint: Checkpoint, max_model_len: int) -> int:
    """How many blocks to keep for reuse when nobody said how much memory the cache may take.

    As much memory as the model's own weights, and at least one whole context; beyond that the pool
    gives memory back to the sequences that run.
    """
    weights = sum(tensor.nbytes for tensor in checkpoint.tensors.values())
    block_bytes = KVPool.bytes_per_block(model.kv_block_shapes(), model.config.num_layers, model.dtype)
    return max(weights // block_bytes, -(-max_model_len // BLOCK_SIZE))


def _details(model: Llama, pool: KVPool, threads: int) -> dict[str, object]:
    shapes, layers = model.kv_block_shapes(), model.config.num_layers
    return {
        "architecture": model.config.architecture,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": str(model.device),
        "kernels": model.kernels,
        "threads": threads,
        "blocks": pool.num_blocks,
        "block_size": pool.block_size,
        "kv_bytes": pool.num_blocks * KVPool.bytes_per_block(shapes, layers, model.dtype),
        "memory_bytes": resident_memory(),
    }


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
