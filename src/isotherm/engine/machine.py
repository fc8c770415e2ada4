"""What this machine offers: device, precision, and memory for the KV cache."""

from __future__ import annotations

import ctypes
import gc
import os
from contextlib import suppress
from pathlib import Path

import torch

from isotherm.base.errors import SetupError
from isotherm.kernels.cpu import compiled
from isotherm.model.linear import packing_works

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

AUTO_KV_SHARE = 0.4
"""Part of the available memory that the KV cache may grow to when nobody says how much."""

AUTO_KV_BYTES = 4 << 30
"""And not more than this: a cache that never evicts is memory that other programs miss."""

_PAGE = os.sysconf("SC_PAGE_SIZE")


def choose_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """``auto`` is bfloat16 where the hardware multiplies it, float32 elsewhere."""
    if name in DTYPES:
        return DTYPES[name]
    if name != "auto":
        raise SetupError(f"unknown dtype {name!r}; choose auto, {' or '.join(DTYPES)}")
    fast = torch.cuda.is_bf16_supported() if device.type == "cuda" else packing_works()
    return torch.bfloat16 if fast else torch.float32


def use_threads(wanted: int | None) -> int:
    """Set how many threads compute: what the operator says, else what torch finds (OMP_NUM_THREADS, or the cores)."""
    threads = wanted or torch.get_num_threads()
    torch.set_num_threads(threads)
    compiled.use_threads(threads)
    return threads


def available_memory(device: torch.device) -> int:
    """Bytes that a new allocation may take on the device; a container's limit counts like the machine's."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        machine = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        return AUTO_KV_BYTES
    return min(machine, _container_headroom(machine))


def _container_headroom(otherwise: int, group: Path = Path("/sys/fs/cgroup")) -> int:
    """What the control group (version 2) may still take; ``otherwise`` where it has no limit."""
    try:
        limit, used = ((group / name).read_text().strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return otherwise
    return otherwise if limit == "max" else max(0, int(limit) - int(used))


def kv_budget(device: torch.device) -> int:
    """Bytes that the KV cache may grow to when nobody says how many: a share of the memory that is free now."""
    return min(AUTO_KV_BYTES, int(available_memory(device) * AUTO_KV_SHARE))


def kv_blocks(wanted: int | None, block_bytes: int, useful_blocks: int, device: torch.device) -> int:
    """How many KV blocks to keep.

    Args:
        wanted: the operator's bytes, or None to take what all sequences at full length could use
            (``useful_blocks``) within a share of the memory that is free now.
    """
    if wanted is not None:
        if wanted < block_bytes:
            raise SetupError(f"--kv-memory {wanted} bytes is less than one block of {block_bytes} bytes; give more")
        return wanted // block_bytes
    return max(1, min(useful_blocks, kv_budget(device) // block_bytes))


def return_freed_memory() -> None:
    """Give the pages back that loading needed; glibc keeps them otherwise (75 MB for a 135M model)."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def resident_memory() -> int:
    """Resident bytes of this process; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0
