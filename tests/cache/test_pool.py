"""The KV tensors: shapes as the network says them, and no memory before it is used."""

import os
from pathlib import Path

import torch

from isotherm.cache.pool import KVPool


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_shapes_and_cost():
    shapes = ((3, 64, 32), (3, 32, 64))
    pool = KVPool(5, 32, shapes, num_layers=2, dtype=torch.bfloat16)
    assert (pool.keys.shape, pool.values.shape) == ((2, 5, 3, 64, 32), (2, 5, 3, 32, 64))
    assert KVPool.bytes_per_block(shapes, 2, torch.bfloat16) == 2 * 2 * 3 * 64 * 32 * 2


def test_untouched_pool_takes_no_memory():
    before = resident_bytes()
    pool = KVPool(4096, 32, ((8, 64, 32), (8, 32, 64)), num_layers=1, dtype=torch.float32)
    assert resident_bytes() - before < 32 * 2**20
    keys = pool.keys[0]
    keys[:16] = 1
    assert resident_bytes() - before < 64 * 2**20
