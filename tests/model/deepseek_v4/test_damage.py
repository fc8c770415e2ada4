"""Damaged tensors are refused by name, when the checkpoint is opened where that can be seen, else before it serves."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from isotherm.base.errors import SetupError
from isotherm.model.checkpoint import open_checkpoint
from isotherm.model.deepseek_v4.tiny import write_tiny
from isotherm.model.deepseek_v4.weights import load_weights

ROUTES = "layers.0.ffn.gate.tid2eid"
WEIGHT, SCALE = "layers.1.attn.wq_a.weight", "layers.1.attn.wq_a.scale"
EXPERT = "layers.1.ffn.experts.3.w1.scale"


@pytest.fixture(scope="module", params=["plain", "release"])
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("made") / request.param
    write_tiny(folder, release=request.param == "release")
    return folder


def damage(source: Path, target: Path, name: str, values: NDArray[np.generic], kind: str | None = None) -> str:
    """Copy a checkpoint with other ``values`` at the beginning of a tensor, or in all of it if ``kind`` is given."""
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    path = target / "model.safetensors"
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8:start]), b""
    for each, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        part = data[start + begin : start + end]
        if each == name and kind is not None:
            entry["dtype"], part = kind, np.resize(values, entry["shape"]).tobytes()
        elif each == name:
            part = values.tobytes() + part[values.nbytes :]
        entry["data_offsets"] = [len(body), len(body) + len(part)]
        body += part
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    return str(target)


def load(folder: str) -> None:
    checkpoint = open_checkpoint(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_weights(checkpoint.config, checkpoint.tensors, torch.bfloat16, torch.device("cpu"))


@pytest.mark.parametrize("stored", ["release"], indirect=True)
@pytest.mark.parametrize(
    ("name", "code", "named"),
    [(WEIGHT, 0x7F, WEIGHT), (SCALE, 255, WEIGHT), (SCALE, 254, WEIGHT), (EXPERT, 255, EXPERT[:-5] + "weight")],
)
def test_codes_that_are_no_numbers(stored: Path, tmp_path: Path, name: str, code: int, named: str) -> None:
    with pytest.raises(SetupError, match=f"{named} holds a NaN, an infinity or a number beyond bfloat16"):
        load(damage(stored, tmp_path, name, np.array([code], np.uint8)))


@pytest.mark.parametrize("stored", ["plain"], indirect=True)
@pytest.mark.parametrize(("name", "value"), [("embed.weight", np.inf), ("norm.weight", np.nan), (WEIGHT, -3.4028e38)])
def test_numbers_that_cannot_be_computed_with(stored: Path, tmp_path: Path, name: str, value: float) -> None:
    with pytest.raises(SetupError, match=f"{name} holds a NaN, an infinity or a number beyond bfloat16"):
        load(damage(stored, tmp_path, name, np.array([1, value], np.float32), "F32"))


@pytest.mark.parametrize("stored", ["plain"], indirect=True)
@pytest.mark.parametrize(("ids", "told"), [([3, 99], "to 99 of 8"), ([-1, 2], "from -1 to 7 of 8")])
def test_routes_to_experts_that_do_not_exist(stored: Path, tmp_path: Path, ids: list[int], told: str) -> None:
    with pytest.raises(SetupError, match=f"{ROUTES} names experts .*{told}"):
        load(damage(stored, tmp_path, ROUTES, np.array(ids, np.int64)))


@pytest.mark.parametrize("stored", ["plain"], indirect=True)
@pytest.mark.parametrize(
    ("name", "kind", "dtype"),
    [
        (ROUTES, "F32", np.float32),
        (ROUTES, "I8", np.int8),
        ("norm.weight", "I64", np.int64),
        (WEIGHT, "I64", np.int64),
        (WEIGHT, "F8_E8M0", np.uint8),
        (WEIGHT, "U8", np.uint8),
    ],
)
def test_a_tensor_of_another_kind(stored: Path, tmp_path: Path, name: str, kind: str, dtype: type[np.generic]) -> None:
    with pytest.raises(SetupError, match=f"{name} is stored as {kind}, "):
        open_checkpoint(damage(stored, tmp_path, name, np.ones(1, dtype), kind))


@pytest.mark.parametrize("stored", ["release"], indirect=True)
@pytest.mark.parametrize("kind", ["I8", "F8_E4M3"])
def test_scales_of_another_kind(stored: Path, tmp_path: Path, kind: str) -> None:
    with pytest.raises(SetupError, match=f"{SCALE} is stored as {kind}, expected F8_E8M0 or F32"):
        open_checkpoint(damage(stored, tmp_path, SCALE, np.ones(1, np.int8), kind))


@pytest.mark.parametrize("length", [4, 100, 100_000, -1])
def test_a_cut_file(stored: Path, tmp_path: Path, length: int) -> None:
    folder = damage(stored, tmp_path, "", np.zeros(0))
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(SetupError, match=r"model\.safetensors is not a usable safetensors file: it "):
        open_checkpoint(folder)


@pytest.mark.parametrize("cut", [True, False])
def test_a_cut_or_missing_shard_is_named(stored: Path, tmp_path: Path, cut: bool) -> None:
    folder = damage(stored, tmp_path, "", np.zeros(0))
    shards = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    data = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").rename(tmp_path / shards[0])
    places = {"embed.weight": shards[0], "norm.weight": shards[1]}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    if cut:
        (tmp_path / shards[1]).write_bytes(data[: len(data) // 2])
    with pytest.raises(SetupError, match=shards[1]):
        open_checkpoint(folder)
