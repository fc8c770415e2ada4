"""A DeepSeek-V4 checkpoint made ready to serve: network, latent pool, slots and snapshots, runner."""

from __future__ import annotations

import torch

from isotherm.base.errors import SetupError
from isotherm.cache.latent_pool import LATENT_BLOCK, LatentPool, Pooled
from isotherm.cache.layouts import RowLayout, index_layout, latent_layout
from isotherm.cache.manager import BlockManager
from isotherm.cache.slots import SlotManager
from isotherm.engine.latent_runner import LatentRunner
from isotherm.engine.machine import choose_dtype, kv_blocks
from isotherm.engine.options import EngineOptions
from isotherm.engine.parts import Parts
from isotherm.engine.plan import Segment
from isotherm.engine.sequence import Sequence
from isotherm.model.checkpoint import Checkpoint
from isotherm.model.deepseek_v4.config import DeepseekV4Config
from isotherm.model.deepseek_v4.memory import INDEX, MAIN
from isotherm.model.deepseek_v4.network import DeepseekV4
from isotherm.model.deepseek_v4.weights import load_weights

AUTO_KV_DTYPE = "bfloat16"
"""What ``--kv-dtype auto`` means: the most precise of the two that serve, at 1.8 times the memory of the packed one."""

MAX_SNAPSHOTS = 256


def assemble(
    checkpoint: Checkpoint, config: DeepseekV4Config, options: EngineOptions, max_model_len: int, device: torch.device
) -> Parts:
    """Load, size the pool, warm up; raises SetupError when that cannot be."""
    if options.deterministic:
        raise SetupError(f"--deterministic is not available for {config.architecture} yet; leave it out")
    kv_dtype = AUTO_KV_DTYPE if options.kv_dtype == "auto" else options.kv_dtype
    window, compressors = layouts(config, kv_dtype)
    model = DeepseekV4(
        config,
        load_weights(config, checkpoint.tensors, choose_dtype(options.dtype, device), device),
        choose_dtype(options.dtype, device),
    )
    slot_bytes = _slot_bytes(config, window, compressors)
    block_bytes = sum(LATENT_BLOCK // each.ratio * each.layout.row_bytes for each in compressors) or 1
    useful = options.max_num_seqs * -(-max_model_len // LATENT_BLOCK)
    snapshots = min(MAX_SNAPSHOTS, useful)
    fixed = (options.max_num_seqs + snapshots) * slot_bytes
    wanted = None if options.kv_memory is None else _after_slots(options.kv_memory, fixed)
    num_blocks = kv_blocks(wanted, block_bytes, useful, device)
    pool = LatentPool(
        config.num_layers, config.attention.window, window, compressors, num_blocks, options.max_num_seqs + snapshots,
        device,
    )  # fmt: skip
    slots = SlotManager(options.max_num_seqs, snapshots, pool.copy_slot)
    runner = LatentRunner(model, pool)
    _warm_up(runner)
    return Parts(
        runner,
        BlockManager(num_blocks, LATENT_BLOCK, evicted=slots.forget),
        slots,
        config.vocab_size,
        False,
        {
            "architecture": config.architecture,
            "dtype": str(model.dtype).removeprefix("torch."),
            "kv_dtype": kv_dtype,
            "device": str(device),
            "kernels": f"{model.ops.name} for streams and rotation, the rest reference",
            "blocks": num_blocks,
            "block_size": LATENT_BLOCK,
            "kv_bytes": num_blocks * block_bytes + fixed,
            "snapshots": snapshots,
        },
    )


def layouts(config: DeepseekV4Config, kv_dtype: str) -> tuple[RowLayout, list[Pooled]]:
    """How the window's rows and every compressor's rows are kept; SetupError where they cannot be."""
    a = config.attention
    try:
        row = latent_layout(kv_dtype, a.head_dim, a.rope_dim)
    except ValueError as error:
        raise SetupError(f"--kv-dtype {kv_dtype} is not possible: {error}; give bfloat16") from error
    pooled = []
    for layer, how in enumerate(config.layers):
        if how is None:
            continue
        state_rows = how.ratio * how.overlap
        pooled.append(Pooled(layer, MAIN, how.ratio, row, state_rows, 2 * how.overlap * a.head_dim))
        if how.indexed:
            keys = index_layout(kv_dtype, a.index_dim)
            pooled.append(Pooled(layer, INDEX, how.ratio, keys, state_rows, 2 * how.overlap * a.index_dim))
    return row, pooled


def _slot_bytes(config: DeepseekV4Config, window: RowLayout, compressors: list[Pooled]) -> int:
    states = sum(4 * each.state_rows * each.state_width for each in compressors)
    return config.num_layers * config.attention.window * window.row_bytes + states


def _after_slots(memory: int, fixed: int) -> int:
    if memory <= fixed:
        raise SetupError(
            f"--kv-memory {memory} bytes is less than the {fixed} that windows and snapshots take; give more, or fewer "
            "sequences with --max-num-seqs"
        )
    return memory - fixed


def _warm_up(runner: LatentRunner) -> None:
    """One short forward; what is written is overwritten by the first sequence in that block and slot."""
    sequence = Sequence(id=0, tokens=[0] * 8, blocks=[0], slot=0)
    runner.run([Segment(sequence, 0, 8, decode=False, ends_context=True)])
