"""Checkpoints: the release's storage, what transformers writes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isotherm.base.errors import SetupError
from isotherm.model.checkpoint import open_checkpoint
from isotherm.model.deepseek_v4.names import from_transformers, tensor_shapes
from isotherm.model.deepseek_v4.tiny import write_tiny
from isotherm.model.deepseek_v4.weights import load_weights
from isotherm.model.huggingface import read_weights


def rewrite(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    values = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in values.items() if value is not ...}))


def test_the_release_stores_what_plain_weights_hold_but_for_rounding(tmp_path: Path) -> None:
    write_tiny(tmp_path / "plain", seed=4)
    write_tiny(tmp_path / "release", seed=4, release=True)
    plain, release = (open_checkpoint(str(tmp_path / name)) for name in ("plain", "release"))
    assert {tensor.kind for tensor in release.tensors.values()} == {"BF16", "F32", "I64", "FP8", "FP4"}
    for name, tensor in release.tensors.items():
        if tensor.kind in ("FP8", "FP4"):
            exact, rounded = plain.tensors[name].dequantize(), tensor.dequantize()
            error = np.linalg.norm(rounded - exact) / np.linalg.norm(exact)
            assert error < (0.04 if tensor.kind == "FP8" else 0.2), name
    drafts = sum(name.startswith("mtp.0.") for name in read_weights(tmp_path / "release"))
    assert drafts > 80, "a block's weights with their scales, two projections, norms and an end of its own"
    assert release.notices == (
        f"{drafts} tensors of draft blocks (mtp.*) are left out: this is served without speculation",
    )


def test_fp8_blocks_and_fp4_groups_decode_as_defined(tmp_path: Path) -> None:
    """Against torch's own types, value by value."""
    write_tiny(tmp_path, release=True)
    from safetensors import safe_open

    raw = read_weights(tmp_path)
    tensors = open_checkpoint(str(tmp_path)).tensors
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        weight = file.get_tensor("layers.1.attn.wq_b.weight").float()
    exponents = raw["layers.1.attn.wq_b.scale"].raw().astype(int)
    scale = torch.from_numpy(2.0 ** (exponents - 127)).repeat_interleave(128, 0).repeat_interleave(128, 1)
    expected = weight * scale[: weight.shape[0], : weight.shape[1]]
    np.testing.assert_array_equal(tensors["layers.1.attn.wq_b.weight"].dequantize(), expected.float().numpy())
    packed = raw["layers.2.ffn.experts.3.w1.weight"].raw()
    scales = 2.0 ** (raw["layers.2.ffn.experts.3.w1.scale"].raw().astype(int) - 127)
    magnitudes = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    for row, column in ((0, 0), (5, 31), (63, 127), (10, 64)):
        nibble = int(packed[row, column // 2]) >> 4 * (column % 2) & 15
        value = magnitudes[nibble & 7] * (-1 if nibble & 8 else 1) * scales[row, column // 32]
        assert tensors["layers.2.ffn.experts.3.w1.weight"].dequantize()[row, column] == value


def test_what_transformers_saves_is_read(tmp_path: Path) -> None:
    from transformers import DeepseekV4ForCausalLM

    write_tiny(tmp_path / "release")
    ours = open_checkpoint(str(tmp_path / "release"))
    model = DeepseekV4ForCausalLM.from_pretrained(tmp_path / "release", dtype=torch.float32)
    for original in (True, False):
        folder = tmp_path / f"saved-{original}"
        model.save_pretrained(folder, save_original_format=original)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (folder / name).write_bytes((tmp_path / "release" / name).read_bytes())
        saved = open_checkpoint(str(folder))
        assert saved.config.layers == ours.config.layers
        assert saved.config.attention == ours.config.attention
        assert saved.config.experts == ours.config.experts
        for name, tensor in ours.tensors.items():
            if tensor.kind != "I64":
                np.testing.assert_array_equal(saved.tensors[name].dequantize(), tensor.dequantize(), name)


def test_every_name_of_the_release_stays_itself(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    for name in tensor_shapes(open_checkpoint(str(tmp_path)).config):
        assert from_transformers(name) == name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["DeepseekV41ForCausalLM"], "model_type": "deepseek_v41"}, "V4.1 is not supported"),
        ({"compress_ratios": [0, 4, 64, 4, 128]}, "compression 64 is not supported"),
        ({"compress_ratios": [0, 4]}, "compress_ratios must name the ratio of each of the 5 layers"),
        ({"scoring_func": "softmax"}, "scoring_func 'softmax' is not supported"),
        ({"num_attention_heads": 5}, "is not a multiple of o_groups"),
        ({"num_experts_per_tok": 9}, "num_experts_per_tok 9 is more than"),
        ({"hidden_size": 256}, "has shape"),
        ({"n_routed_experts": 9}, "ffn.experts.8.w1.weight is missing"),
        ({"n_routed_experts": 10**12}, "describes 1000000000000 experts but holds only"),
        ({"num_hidden_layers": ...}, "num_hidden_layers must be a positive whole number"),
    ],
)
def test_a_configuration_that_cannot_be_run_says_why(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    write_tiny(tmp_path)
    rewrite(tmp_path, **changes)
    with pytest.raises(SetupError, match=message):
        open_checkpoint(str(tmp_path))


def test_a_damaged_number_is_named(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    path = tmp_path / "model.safetensors"
    data = bytearray(path.read_bytes())
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    start = 8 + int.from_bytes(data[:8], "little") + header["layers.3.attn.attn_sink"]["data_offsets"][0]
    data[start : start + 4] = np.float32(np.nan).tobytes()
    path.write_bytes(data)
    checkpoint = open_checkpoint(str(tmp_path))
    with pytest.raises(SetupError, match=r"layers\.3\.attn\.attn_sink holds a NaN"):
        load_weights(checkpoint.config, checkpoint.tensors, torch.float32, torch.device("cpu"))


def test_scales_that_do_not_fit_are_named(tmp_path: Path) -> None:
    write_tiny(tmp_path, release=True)
    path = tmp_path / "model.safetensors"
    text = path.read_bytes()
    path.write_bytes(text.replace(b'"layers.1.attn.wq_b.scale"', b'"layers.1.attn.wq_x.scale"'))
    with pytest.raises(SetupError, match=r"layers\.1\.attn\.wq_b\.weight is stored as F8_E4M3, but .* is missing"):
        open_checkpoint(str(tmp_path))


def test_scales_of_no_weight_are_named(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes().replace(b'"layers.1.attn.attn_sink"', b'"layers.1.attn.abc.scale"'))
    with pytest.raises(SetupError, match=r"attn_sink is missing\n  layers\.1\.attn\.abc\.scale is not known"):
        open_checkpoint(str(tmp_path))
