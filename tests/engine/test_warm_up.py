"""After warming up no request waits for a kernel: whatever a forward needs is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from numba.core.dispatcher import Dispatcher

from engine.fakes import drain, params
from isotherm.engine.factory import build
from isotherm.engine.messages import Submit
from isotherm.engine.options import EngineOptions
from isotherm.kernels.cpu import attention, decode_stack, matmul, matrix_stack, rows

pytestmark = pytest.mark.model
MODULES = (attention, decode_stack, matmul, matrix_stack, rows)
"""Those whose kernels Python calls in a forward."""


def compiled(modules: tuple[ModuleType, ...]) -> Iterator[tuple[str, int]]:
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, Dispatcher) and value.targetoptions.get("parallel"):
                yield f"{module.__name__}.{name}", len(value.signatures)


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
