"""A Llama-type checkpoint made ready to serve: network, KV pool, runner."""

from __future__ import annotations

import torch

from isotherm.base.backend import Loaded
from isotherm.base.block import BLOCK_SIZE
from isotherm.base.errors import SetupError
from isotherm.cache.manager import BlockManager
from isotherm.cache.pool import KVPool
from isotherm.engine.machine import choose_dtype, kv_blocks
from isotherm.engine.options import EngineOptions
from isotherm.engine.parts import Parts
from isotherm.engine.runner import Runner
from isotherm.engine.warm_up import warm_up
from isotherm.model.checkpoint import Checkpoint
from isotherm.model.config import LlamaConfig
from isotherm.model.llama import Llama
from isotherm.model.llama_loader import load_llama


def assemble(
    checkpoint: Checkpoint,
    config: LlamaConfig,
    options: EngineOptions,
    max_model_len: int,
    device: torch.device,
    loaded: Loaded,
) -> Parts:
    """Load, size the pool, warm up; raises SetupError when that cannot be."""
    dtype = choose_dtype(options.dtype, device)
    kept = str(dtype).removeprefix("torch.")
    if options.kv_dtype not in ("auto", kept):
        raise SetupError(
            f"--kv-dtype {options.kv_dtype} is not possible for {config.architecture}: keys and values have the dtype "
            f"of the linear layers, {kept}; give --dtype {options.kv_dtype}"
            if options.kv_dtype != "fp8_e4m3"
            else f"--kv-dtype fp8_e4m3 is not possible for {config.architecture}, only for DeepSeek-V4; leave it out"
        )
    if options.kernels != "auto":
        raise SetupError(f"--kernels {options.kernels} is not possible for {config.architecture}, only for DeepSeek-V4")
    if options.kv_snapshots is not None:
        raise SetupError(
            f"--kv-snapshots is for DeepSeek-V4; {config.architecture} reuses every full block. Leave it out"
        )
    model = load_llama(
        config,
        checkpoint.tensors,
        dtype=dtype,
        max_model_len=max_model_len,
        keep_quantised=options.dtype == "auto",
        deterministic=options.deterministic,
        max_decode_rows=options.max_num_seqs,
        device=device,
        progress=loaded,
    )
    pool, max_cached = _pool(model, options, max_model_len), None
    if options.kv_memory is None:
        max_cached = _retained_blocks(model, checkpoint, max_model_len)
    runner = Runner(model, pool)
    warm_up(runner)
    return Parts(
        runner,
        BlockManager(pool.num_blocks, BLOCK_SIZE, max_cached),
        None,
        config.vocab_size,
        model.independent_rows,
        _details(model, pool),
    )


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


def _details(model: Llama, pool: KVPool) -> dict[str, object]:
    shapes, layers = model.kv_block_shapes(), model.config.num_layers
    dtype = str(model.dtype).removeprefix("torch.")
    return {
        "architecture": model.config.architecture,
        "dtype": dtype,
        "kv_dtype": dtype,
        "device": str(model.device),
        "kernels": model.kernels,
        "blocks": pool.num_blocks,
        "block_size": pool.block_size,
        "kv_bytes": pool.num_blocks * KVPool.bytes_per_block(shapes, layers, model.dtype),
    }
