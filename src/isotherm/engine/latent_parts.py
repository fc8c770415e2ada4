"""A DeepSeek-V4 checkpoint made ready to serve: network, latent pool, slots and snapshots, runner."""

from __future__ import annotations

import torch

from isotherm.base.backend import Loaded
from isotherm.base.errors import SetupError
from isotherm.cache.latent_pool import LATENT_BLOCK, LatentPool, Pooled, block_bytes, slot_bytes
from isotherm.cache.manager import BlockManager
from isotherm.cache.slots import SlotManager
from isotherm.engine.latent_runner import LatentRunner
from isotherm.engine.latent_warm_up import warm_up
from isotherm.engine.machine import choose_dtype, kv_budget
from isotherm.engine.options import EngineOptions
from isotherm.engine.parts import Parts
from isotherm.kernels.cpu.dense import FEW_ROWS
from isotherm.kernels.dispatch import STOCK_ATTEND, STOCK_INDEX
from isotherm.kernels.layouts import RowLayout, index_layout, latent_layout
from isotherm.model.checkpoint import Checkpoint
from isotherm.model.deepseek_v4.config import DeepseekV4Config
from isotherm.model.deepseek_v4.memory import INDEX, MAIN
from isotherm.model.deepseek_v4.network import DeepseekV4
from isotherm.model.deepseek_v4.weights import load_weights

AUTO_KV_DTYPE = "bfloat16"
"""What ``--kv-dtype auto`` means: the most precise of the two that serve, at 1.8 times the memory of the packed one."""

STOCK = {"stock-attend": (STOCK_ATTEND,), "stock-index": (STOCK_INDEX,), "stock": (STOCK_ATTEND, STOCK_INDEX)}
"""What the values of ``--kernels`` put in the place of fast operations."""

MAX_SNAPSHOTS = 256
"""How many ``--kv-snapshots auto`` keeps at most."""


def assemble(
    checkpoint: Checkpoint,
    config: DeepseekV4Config,
    options: EngineOptions,
    max_model_len: int,
    device: torch.device,
    loaded: Loaded,
) -> Parts:
    """Load, size the pool, warm up; raises SetupError when that cannot be."""
    kv_dtype = AUTO_KV_DTYPE if options.kv_dtype == "auto" else options.kv_dtype
    window, compressors = layouts(config, kv_dtype)
    dtype = choose_dtype(options.dtype, device)
    weights = load_weights(config, checkpoint.tensors, dtype, device, row_by_row=options.deterministic, progress=loaded)
    variants = STOCK.get(options.kernels, ())
    model = DeepseekV4(config, weights, dtype, variants=variants, longest=max_model_len)
    in_slot = slot_bytes(config.num_layers, config.attention.window, window, compressors)
    useful = options.max_num_seqs * -(-max_model_len // LATENT_BLOCK)
    memory = options.kv_memory or kv_budget(device)
    num_blocks, snapshots = divide(
        memory, in_slot, block_bytes(compressors), options.max_num_seqs, useful, options.kv_snapshots
    )
    pool = LatentPool(
        config.num_layers, config.attention.window, window, compressors, num_blocks, options.max_num_seqs + snapshots,
        device,
    )  # fmt: skip
    slots = SlotManager(options.max_num_seqs, snapshots, pool.copy_slot)
    runner = LatentRunner(model, pool, together=FEW_ROWS if options.deterministic else None)
    warm_up(model, pool, runner)
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
            "kernels": model.ops.name,
            "blocks": num_blocks,
            "block_size": LATENT_BLOCK,
            "kv_bytes": num_blocks * block_bytes(compressors) + (options.max_num_seqs + snapshots) * in_slot,
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


def divide(
    memory: int, in_slot: int, in_block: int, num_seqs: int, useful_blocks: int, wanted: int | None = None
) -> tuple[int, int]:
    """Blocks and snapshots that ``memory`` bytes hold beside the slots of running sequences.

    Unless a number is ``wanted``, snapshots get at most a quarter of what is left: without blocks there is nothing that
    could be reused. SetupError when not one block is left.
    """
    left = memory - num_seqs * in_slot
    snapshots = max(0, min(MAX_SNAPSHOTS, useful_blocks, left // 4 // in_slot)) if wanted is None else wanted
    left -= snapshots * in_slot
    if left < in_block:
        kept = f", {wanted} snapshots {wanted * in_slot}" if wanted else ""
        fewer = "fewer sequences with --max-num-seqs" + (" or snapshots with --kv-snapshots" if wanted else "")
        raise SetupError(
            f"{memory} bytes for the KV cache are too few: windows of {num_seqs} sequences take {num_seqs * in_slot}"
            f"{kept}, a block {in_block}; give more with --kv-memory, or {fewer}"
        )
    return (min(useful_blocks, left // in_block) if in_block else useful_blocks), snapshots
