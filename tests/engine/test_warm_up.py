"""After warming up no request waits for a kernel: whatever a forward needs is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from numba.core.dispatcher import Dispatcher

from engine.fakes import drain, params
from isotherm.engine.factory import build
from isotherm.engine.messages import Submit
from isotherm.engine.options import EngineOptions
from isotherm.kernels.cpu import (
    attention,
    choose,
    compress,
    decode_stack,
    dense,
    experts,
    hyper,
    latent_attention,
    matmul,
    matrix_stack,
    move_rows,
    rows,
    turn,
)
from isotherm.model.deepseek_v4.tiny import write_tiny

MODULES = (attention, decode_stack, matmul, matrix_stack, rows)
LATENT = (choose, compress, dense, experts, hyper, latent_attention, matmul, move_rows, turn)
"""Those whose kernels Python calls in a forward."""


def compiled(modules: tuple[ModuleType, ...]) -> Iterator[tuple[str, int]]:
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, Dispatcher):
                yield f"{module.__name__}.{name}", len(value.signatures)


@pytest.mark.parametrize("kv_dtype", ["bfloat16", "fp8_e4m3"])
def test_a_crowd_of_a_latent_model_compiles_nothing(kv_dtype: str, tmp_path: Path) -> None:
    """Prompts long enough that rows are chosen, with a prefix that is reused."""
    write_tiny(tmp_path)
    threads = torch.get_num_threads()
    engine = build(
        EngineOptions(str(tmp_path), kv_dtype=kv_dtype, max_model_len=1024, kv_memory=64 << 20, threads=1)
    ).engine
    before = dict(compiled(LATENT))
    assert any(before.values())
    for sequence in range(14):
        prompt = [5] * 300 + [sequence] if sequence % 3 == 0 else [5 + sequence] * (3 + 7 * sequence)
        engine.submit(Submit(sequence, prompt, params(max_tokens=3)))
        if sequence % 5 == 0:
            engine.step()
    drain(engine)
    assert engine.stats().cached_tokens_total > 0
    assert dict(compiled(LATENT)) == before
    torch.set_num_threads(threads)


@pytest.mark.model
@pytest.mark.parametrize("dtype", ["auto", "bfloat16"])
def test_a_crowd_compiles_nothing(dtype: str) -> None:
    threads = torch.get_num_threads()
    engine = build(EngineOptions("smollm2-135m", dtype=dtype, max_model_len=256, kv_memory=64 << 20, threads=1)).engine
    before = dict(compiled(MODULES))
    assert any(before.values())
    for sequence in range(24):
        engine.submit(Submit(sequence, [5 + sequence] * (3 + sequence), params(max_tokens=3)))
        if sequence % 5 == 0:
            engine.step()
    drain(engine)
    assert dict(compiled(MODULES)) == before
    torch.set_num_threads(threads)
