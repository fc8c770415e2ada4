"""Precision of the cache: what was asked for is kept, or nothing is loaded; hints in a checkpoint decide nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isotherm.base.backend import unwatched
from isotherm.base.errors import SetupError
from isotherm.engine import latent_parts, llama_parts
from isotherm.engine.machine import choose_dtype
from isotherm.engine.options import EngineOptions
from isotherm.engine.parts import Parts
from isotherm.model.checkpoint import Checkpoint, open_checkpoint
from isotherm.model.deepseek_v4.config import DeepseekV4Config
from isotherm.model.deepseek_v4.tiny import write_tiny
from isotherm.model.safetensors_file import read_safetensors
from isotherm.model.tensors import TensorSource
from support.cases import case
from support.checkpoints import config_json, random_weights, write_folder

CPU = torch.device("cpu")
PRECISIONS = ("auto", "fp8_e4m3", "bfloat16", "float32")
HINTS = {"kv_cache_dtype": "fp8", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}
MODELOPT = {"quantization": {"quant_algo": None, "kv_cache_quant_algo": "FP8"}}


class Sealed(Mapping[str, TensorSource]):
    """Weights that nobody may look at."""

    def __getitem__(self, name: str) -> TensorSource:
        raise AssertionError(f"{name} was loaded")

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("weights were looked at")

    def __len__(self) -> int:
        raise AssertionError("weights were counted")


def assemble(checkpoint: Checkpoint, **options: Any) -> Parts:
    chosen = EngineOptions(checkpoint.name, max_num_seqs=2, kv_memory=8 << 20, **options)
    if isinstance(checkpoint.config, DeepseekV4Config):
        return latent_parts.assemble(checkpoint, checkpoint.config, chosen, 128, CPU, unwatched)
    return llama_parts.assemble(checkpoint, checkpoint.config, chosen, 128, CPU, unwatched)


def refusal(checkpoint: Checkpoint, **options: Any) -> str:
    with pytest.raises(SetupError) as caught:
        assemble(replace(checkpoint, tensors=Sealed()), **options)
    return str(caught.value)


def deepseek(folder: Path, **changes: Any) -> Checkpoint:
    write_tiny(folder, changes=changes)
    return open_checkpoint(str(folder))


def llama(folder: Path, **config: Any) -> Checkpoint:
    return open_checkpoint(str(write_folder(folder, random_weights(), config_json(**config))))


def test_204_what_cannot_be_kept_is_refused_before_weights_are_loaded(tmp_path: Path) -> None:
    """This shape's packed record does not exist; the message names the reason and the precision that would do."""
    expected = case("204")["expect"]
    assert expected["must"].startswith("fails before weights are loaded")
    assert "silent fallback to fp8" in expected["must_not"]
    narrow = deepseek(tmp_path, head_dim=64)
    message = refusal(narrow, kv_dtype="fp8_e4m3")
    assert "--kv-dtype fp8_e4m3 is not possible: the 48 numbers" in message
    assert message.endswith("give bfloat16")
    assert assemble(narrow, kv_dtype="bfloat16").details["kv_dtype"] == "bfloat16"


def test_204_every_precision_is_kept_as_asked_for(tmp_path: Path) -> None:
    """bfloat16 for DeepSeek-V4 is real: the cache's bytes differ, not only its name."""
    checkpoint, sizes = deepseek(tmp_path), {}
    for kv_dtype in PRECISIONS:
        details = assemble(checkpoint, kv_dtype=kv_dtype).details
        assert details["kv_dtype"] == ("bfloat16" if kv_dtype == "auto" else kv_dtype)
        sizes[kv_dtype] = details["kv_bytes"]
    assert sizes["fp8_e4m3"] < sizes["bfloat16"] == sizes["auto"] < sizes["float32"]


@pytest.mark.parametrize(
    ("dtype", "kv_dtype", "remedy"),
    [
        ("float32", "bfloat16", "give --dtype bfloat16"),
        ("bfloat16", "float32", "give --dtype float32"),
        ("float32", "fp8_e4m3", "only for DeepSeek-V4; leave it out"),
        ("bfloat16", "fp8_e4m3", "only for DeepSeek-V4; leave it out"),
    ],
)
def test_204_a_llama_says_what_would_do(dtype: str, kv_dtype: str, remedy: str, tmp_path: Path) -> None:
    message = refusal(llama(tmp_path), dtype=dtype, kv_dtype=kv_dtype)
    assert message.startswith(f"--kv-dtype {kv_dtype} is not possible for LlamaForCausalLM")
    assert message.endswith(remedy)


@pytest.mark.parametrize("make", [llama, deepseek])
def test_206_a_hint_in_the_checkpoint_does_not_quantise(make: Any, tmp_path: Path) -> None:
    given = case("206")
    assert (given["input"]["config"]["kv_cache_dtype"], given["expect"]["effective"]) == ("auto", "bf16/fp16")
    plain, hinted = make(tmp_path / "plain"), make(tmp_path / "hinted", **HINTS)
    (tmp_path / "hinted" / "hf_quant_config.json").write_text(json.dumps(MODELOPT))
    kept = assemble(hinted).details["kv_dtype"]
    assert kept == assemble(plain).details["kv_dtype"]
    auto = str(choose_dtype("auto", CPU)).removeprefix("torch.")
    assert kept == ("bfloat16" if make is deepseek else auto)


def test_206_a_quantisation_of_weights_with_a_hint_for_the_cache(tmp_path: Path) -> None:
    """The release's format speaks of FP8 anyway: that is its weights'. For a llama it is refused with the reason."""
    write_tiny(tmp_path / "release", release=True)
    path = tmp_path / "release" / "config.json"
    raw = json.loads(path.read_text())
    raw["quantization_config"] |= {"kv_cache_scheme": HINTS["kv_cache_scheme"], "kv_cache_quant_algo": "FP8"}
    path.write_text(json.dumps(raw))
    assert assemble(open_checkpoint(str(tmp_path / "release"))).details["kv_dtype"] == "bfloat16"
    with pytest.raises(SetupError, match="quantised safetensors are not supported; use the unquantised model"):
        llama(tmp_path / "llama", quantization_config={"kv_cache_scheme": HINTS["kv_cache_scheme"]})


SCALES = ("model.layers.{}.self_attn.k_scale", "model.layers.{}.self_attn.v_scale")


@pytest.mark.parametrize("value", [0.5, float("nan"), 0.0])
def test_207_scales_of_a_checkpoint_are_told_and_not_used(value: float, tmp_path: Path) -> None:
    """Nothing multiplies by them, so that a damaged one damages nothing."""
    assert "unit scale 1.0 (warn)" in case("207")["expect"]["report"]
    scales = {name.format(layer): np.array([value], np.float32) for layer in range(2) for name in SCALES}
    plain = open_checkpoint(str(write_folder(tmp_path / "plain", random_weights())))
    scaled = open_checkpoint(str(write_folder(tmp_path / "scaled", {**random_weights(), **scales})))
    assert plain.notices == ()
    (notice,) = scaled.notices
    assert notice.startswith("4 scales for a quantised KV cache (model.layers.0.self_attn.k_scale and so on)")
    assert notice.endswith("are not used: keys and values are kept in the dtype of the linear layers")
    assert scaled.tensors.keys() == plain.tensors.keys()
    assert assemble(scaled).details == assemble(plain).details


@pytest.mark.parametrize("name", ["layers.1.attn.k_scale", SCALES[0].format(1), "model.layers.1.self_attn.kv_scale"])
def test_207_deepseek_computes_its_own_scales(name: str, tmp_path: Path) -> None:
    """In this cache a scale belongs to a row; no precision needs one of the checkpoint, and none is set to 1."""
    plain = deepseek(tmp_path)
    rewrite_with(tmp_path / "model.safetensors", name)
    scaled = open_checkpoint(str(tmp_path))
    assert set(scaled.notices) - set(plain.notices) == {
        f"1 scales for a quantised KV cache ({name}) are not used: "
        "--kv-dtype fp8_e4m3 computes scales for every row, other precisions need none"
    }
    assert scaled.tensors.keys() == plain.tensors.keys()


def test_207_a_scale_that_is_not_of_the_cache_is_an_unknown_tensor(tmp_path: Path) -> None:
    weights = {**random_weights(), "model.layers.0.self_attn.q_scale": np.ones(1, np.float32)}
    with pytest.raises(SetupError, match="q_scale is not known in LlamaForCausalLM"):
        open_checkpoint(str(write_folder(tmp_path, weights)))


def rewrite_with(path: Path, name: str) -> None:
    """Add a tensor of one number to a safetensors file."""
    from isotherm.model.deepseek_v4.tiny import Stored, write_safetensors

    kinds: dict[str, Any] = {"F32": np.float32, "BF16": np.uint16, "I64": np.int64}
    stored: dict[str, Stored] = {
        old: (tensor.kind, np.array(tensor.raw()).view(kinds[tensor.kind]).reshape(tensor.shape))
        for old, tensor in read_safetensors(path).items()
    }
    write_safetensors(path, {**stored, name: ("F32", np.ones(1, np.float32))})
