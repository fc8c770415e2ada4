"""Memory for the KV cache: what was asked for, or a share of what there is."""

import pytest
import torch

from isotherm.base.errors import SetupError
from isotherm.engine import machine

CPU = torch.device("cpu")


@pytest.mark.parametrize(("limit", "used", "headroom"), [("max", "5", 100), ("80", "30", 50), ("10", "30", 0)])
def test_a_containers_limit_counts(tmp_path, limit, used, headroom):
    (tmp_path / "memory.max").write_text(limit + "\n")
    (tmp_path / "memory.current").write_text(used + "\n")
    assert machine._container_headroom(100, tmp_path) == headroom


def test_no_container(tmp_path):
    assert machine._container_headroom(100, tmp_path / "nothing") == 100


def test_available_memory_is_of_this_machine():
    assert 64 << 20 < machine.available_memory(CPU) < 1 << 50


def test_what_was_asked_for_is_taken():
    assert machine.kv_blocks(1000, 300, 99, CPU) == 3
    with pytest.raises(SetupError, match="299 bytes is less than one block of 300"):
        machine.kv_blocks(299, 300, 99, CPU)


def test_automatic_size(monkeypatch):
    """No more than all sequences could use, than a share of free memory, than a fixed bound; at least a block."""
    monkeypatch.setattr(machine, "available_memory", lambda device: 1 << 30)
    assert machine.kv_blocks(None, 1 << 20, 50, CPU) == 50
    assert machine.kv_blocks(None, 1 << 20, 5000, CPU) == int(1024 * machine.AUTO_KV_SHARE)
    assert machine.kv_blocks(None, 1 << 40, 5000, CPU) == 1
    monkeypatch.setattr(machine, "available_memory", lambda device: 1 << 50)
    assert machine.kv_blocks(None, 1 << 20, 10**9, CPU) == machine.AUTO_KV_BYTES >> 20


def test_dtype_names():
    assert machine.choose_dtype("float32", CPU) is torch.float32
    assert machine.choose_dtype("auto", CPU) in (torch.float32, torch.bfloat16)
    with pytest.raises(SetupError, match="unknown dtype 'fp4'"):
        machine.choose_dtype("fp4", CPU)
