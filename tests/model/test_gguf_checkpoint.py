"""GGUF files as checkpoints: names, row order, every storage, configuration, refusals."""

from dataclasses import replace

import gguf
import numpy as np
import pytest

from isotherm.base.errors import SetupError
from isotherm.model.checkpoint import open_checkpoint
from isotherm.model.gguf_tensors import huggingface_name, rotary_row_order
from isotherm.model.tensors import READABLE, STORAGES, dequantize
from support.checkpoints import TINY, interleave, random_weights, vocabulary, write_gguf

WRITABLE = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")
LARGEST_ERROR = {
    "F32": 0,
    "F16": 1e-3,
    "BF16": 4e-3,
    "Q8_0": 5e-3,
    "Q5_0": 0.05,
    "Q5_1": 0.05,
    "Q4_0": 0.1,
    "Q4_1": 0.1,
}
"""For weights of deviation 0.1: what each storage may lose."""


@pytest.mark.parametrize("kind", WRITABLE)
def test_tensors_come_back_under_huggingface_names_and_in_its_row_order(tmp_path, kind):
    weights = random_weights()
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", weights, kind=kind)))
    assert checkpoint.tensors.keys() == weights.keys()
    for name, values in weights.items():
        tensor = checkpoint.tensors[name]
        assert tensor.kind == ("F32" if values.ndim == 1 else kind)
        assert tensor.raw().dtype == np.uint8
        assert tensor.raw().nbytes == tensor.nbytes
        read = tensor.dequantize()
        assert read.dtype == np.float32
        assert read.shape == values.shape
        assert np.abs(read - values).max() <= LARGEST_ERROR[kind]


@pytest.mark.parametrize("kind", [kind for kind in READABLE if kind not in ("F32", "F16", "BF16")])
def test_moving_quantised_rows_is_moving_their_values(kind):
    storage = STORAGES[kind]
    random = np.random.default_rng(1)
    raw = random.integers(0, 60, (32, 2 * storage.nbytes), dtype=np.uint8)
    order = rotary_row_order(2, 16)
    values = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind])
    assert np.array_equal(dequantize(raw[order], kind), values[order])


def test_the_row_order_undoes_the_converter():
    rows = np.arange(4 * 16)
    assert np.array_equal(interleave(rows, 4)[rotary_row_order(4, 16)], rows)


def test_the_configuration_is_read(tmp_path):
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "name.gguf", random_weights())))
    assert checkpoint.config == replace(TINY, stored_dtype="float32") or checkpoint.config == TINY
    assert (checkpoint.name, checkpoint.format, checkpoint.generation_config) == ("name", "gguf", {})


def test_tied_embeddings_and_biases_follow_from_the_tensors(tmp_path):
    config = replace(TINY, tie_word_embeddings=True, attention_bias=True, attention_output_bias=True, mlp_bias=True)
    weights = random_weights(config)
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", weights, config)))
    assert checkpoint.config == config
    bias = "model.layers.0.self_attn.q_proj.bias"
    assert np.array_equal(checkpoint.tensors[bias].dequantize(), weights[bias])


def test_qwen2_rows_are_not_interleaved(tmp_path):
    config = replace(TINY, architecture="Qwen2ForCausalLM", attention_bias=True)
    weights = random_weights(config)
    path = write_gguf(tmp_path / "q.gguf", weights, config, arch="qwen2", metadata={"tokenizer.ggml.pre": "qwen2"})
    checkpoint = open_checkpoint(str(path))
    assert checkpoint.config == config
    name = "model.layers.1.self_attn.k_proj.weight"
    assert np.array_equal(checkpoint.tensors[name].dequantize(), weights[name])


def test_rope_scaling_is_read(tmp_path):
    linear = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    assert open_checkpoint(
        str(write_gguf(tmp_path / "l.gguf", random_weights(), metadata=linear))
    ).config.rope_scaling == {
        "rope_type": "linear",
        "factor": 4.0,
    }
    yarn = {
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 2.0,
        "llama.rope.scaling.original_context_length": 64,
    }
    scaling = open_checkpoint(str(write_gguf(tmp_path / "y.gguf", random_weights(), metadata=yarn))).config.rope_scaling
    assert scaling == {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64}


def test_frequency_divisors_are_configuration_and_no_weight(tmp_path):
    factors = np.linspace(1, 8, TINY.head_dim // 2, dtype=np.float32)
    weights = {**random_weights(), "rope_freqs.weight": factors}
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", weights)))
    assert checkpoint.config.rope_scaling == {"rope_type": "frequency_factors", "factors": tuple(factors.tolist())}
    assert "rope_freqs.weight" not in checkpoint.tensors


@pytest.mark.parametrize("factors", [np.ones(3, np.float32), np.zeros(8, np.float32), np.full(8, np.nan, np.float32)])
def test_impossible_frequency_divisors_are_refused(tmp_path, factors):
    weights = {**random_weights(), "rope_freqs.weight": factors}
    with pytest.raises(SetupError, match="must hold 8 positive numbers"):
        open_checkpoint(str(write_gguf(tmp_path / "m.gguf", weights)))


def test_yarn_attention_factors_are_multiplied(tmp_path):
    """llama.cpp's factor comes on top of yarn's own; Hugging Face names the product."""
    yarn = {
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 4.0,
        "llama.rope.scaling.attn_factor": 0.5,
    }
    scaling = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", random_weights(), metadata=yarn))).config.rope_scaling
    assert scaling["attention_factor"] == pytest.approx(0.5 * (1 + 0.1 * np.log(4.0)))


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        ({"tokenizer.ggml.pre": "martian"}, "'martian' is not known"),
        ({"tokenizer.ggml.pre": None}, "None is not known"),
        ({"tokenizer.ggml.model": None}, "has no tokenizer"),
        ({"tokenizer.ggml.model": "bert"}, "'bert' is not supported"),
        ({"tokenizer.ggml.model": "llama"}, "scores must be 261 numbers"),
        ({"llama.expert_count": 8}, "mixture-of-experts"),
        ({"llama.attention.sliding_window": 64}, "sliding-window"),
        ({"llama.rope.dimension_count": 8}, "part of each head"),
        ({"llama.rope.scaling.type": "dynamic"}, "'dynamic' is not supported"),
        ({"llama.rope.scaling.type": "yarn"}, "factor"),
        ({"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": -1.0}, "positive"),
        ({"tokenizer.ggml.eot_token_id": 9999}, "outside the vocabulary"),
    ],
)
def test_what_cannot_be_served_right_is_refused_by_name(tmp_path, metadata, complaint):
    path = write_gguf(tmp_path / "m.gguf", random_weights(), metadata=metadata)
    with pytest.raises(SetupError, match=complaint):
        open_checkpoint(str(path))


def test_another_architecture_is_refused_with_what_is_supported(tmp_path):
    path = write_gguf(tmp_path / "m.gguf", random_weights(), arch="mamba")
    with pytest.raises(SetupError, match="'mamba' is not supported; supported are llama, qwen2"):
        open_checkpoint(str(path))


def test_all_wrong_tensors_are_reported_at_once(tmp_path):
    weights = random_weights()
    del weights["model.norm.weight"]
    weights["model.layers.0.mlp.up_proj.weight"] = np.zeros((96, 32), np.float32)
    weights["model.layers.1.mlp.up_proj.bias"] = np.zeros(96, np.float32)
    with pytest.raises(SetupError) as refusal:
        open_checkpoint(str(write_gguf(tmp_path / "m.gguf", weights)))
    message = str(refusal.value)
    assert "model.norm.weight is missing" in message
    assert "model.layers.0.mlp.up_proj.weight has shape [96, 32], expected [96, 64]" in message
    assert "model.layers.1.mlp.up_proj.bias is not known" in message


def test_names_that_are_not_ours_stay():
    assert huggingface_name("blk.12.attn_output.weight") == "model.layers.12.self_attn.o_proj.weight"
    assert huggingface_name("blk.0.ssm_a") == "blk.0.ssm_a"


def test_the_tokenizer_facts_are_read(tmp_path):
    spec = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", random_weights()))).tokenizer
    tokens = vocabulary()
    assert (spec.bos_token, spec.eos_token, spec.add_bos) == ("<|start|>", "<|end|>", False)
    assert spec.eos_ids == (tokens.index("<|end|>"),)
    assert spec.special_ids == (258, 259, 260)
    assert "<|start|>" in spec.chat_template
