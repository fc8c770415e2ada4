"""Small models in every file format, written by the formats' own libraries from one set of random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import safetensors

from isotherm.chat.token_bytes import byte_level_alphabet
from isotherm.model.config import LlamaConfig, tensor_shapes

TINY = LlamaConfig(
    architecture="LlamaForCausalLM",
    hidden_size=64,
    intermediate_size=96,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    vocab_size=261,
    rms_norm_eps=1e-5,
    rope_theta=10_000.0,
    rope_scaling=None,
    max_position_embeddings=128,
    tie_word_embeddings=False,
)
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
MERGES = ["h e", "l l"]
CONTROLS = ["<|start|>", "<|end|>", "<|pad|>"]
TEMPLATE = "{% for message in messages %}<|start|>{{ message.content }}<|end|>{% endfor %}"
GGUF_NAMES = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 100)
"""llama.cpp's own table of names, for up to 100 layers."""


def random_weights(config: LlamaConfig = TINY, seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    shapes = tensor_shapes(config)
    return {name: generator.standard_normal(shape, dtype=np.float32) * 0.1 for name, shape in shapes.items()}


def vocabulary() -> list[str]:
    alphabet = {byte: chr(code) for code, byte in byte_level_alphabet().items()}
    return [alphabet[byte] for byte in range(256)] + ["he", "ll"] + CONTROLS


def interleave(weight: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does to q and k rows."""
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def gguf_name(name: str) -> str:
    named = GGUF_NAMES.get_name(name, try_suffixes=(".weight", ".bias"))
    assert named is not None, name
    return named


def write_gguf(
    path: Path,
    weights: dict[str, np.ndarray],
    config: LlamaConfig = TINY,
    kind: str = "F32",
    metadata: dict[str, Any] | None = None,
    arch: str = "llama",
) -> Path:
    """Matrices are stored as ``kind``, vectors as F32. ``metadata`` adds entries or, with None, leaves some out."""
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(config.num_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_heads)
    writer.add_head_count_kv(config.num_kv_heads)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    extra = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", **(metadata or {})}
    for key, value in extra.items():
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif value is not None:
            writer.add_uint32(key, value)
    tokens = vocabulary()
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in CONTROLS else 1 for token in tokens])
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(tokens.index("<|start|>"))
    writer.add_eos_token_id(tokens.index("<|end|>"))
    writer.add_chat_template(TEMPLATE)
    for name, values in weights.items():
        add_tensor(writer, name, values, config, kind, arch)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_tensor(
    writer: gguf.GGUFWriter, name: str, values: np.ndarray, config: LlamaConfig, kind: str, arch: str
) -> None:
    if arch == "llama" and ".q_proj." in name:
        values = interleave(values, config.num_heads)
    if arch == "llama" and ".k_proj." in name:
        values = interleave(values, config.num_kv_heads)
    if values.ndim == 1 or kind == "F32":
        writer.add_tensor(gguf_name(name), values)
        return
    stored_as = gguf.GGMLQuantizationType[kind]
    writer.add_tensor(gguf_name(name), gguf.quants.quantize(values, stored_as), raw_dtype=stored_as)


def tokenizer_json() -> dict[str, Any]:
    tokens = vocabulary()
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": [{"id": tokens.index(text), "content": text, **plain} for text in CONTROLS],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {"type": "BPE", "vocab": {text: index for index, text in enumerate(tokens)}, "merges": MERGES},
    }


def config_json(config: LlamaConfig = TINY, **more: Any) -> dict[str, Any]:
    return {
        "architectures": [config.architecture],
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "vocab_size": config.vocab_size,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "max_position_embeddings": config.max_position_embeddings,
        "tie_word_embeddings": config.tie_word_embeddings,
        "attention_bias": config.attention_bias,
        "eos_token_id": vocabulary().index("<|end|>"),
        **more,
    }


def as_stored(values: np.ndarray, kind: str) -> tuple[str, np.ndarray]:
    """A tensor in the terms of the safetensors library; bfloat16 by cutting off the lower half."""
    if kind == "BF16":
        return "bfloat16", (values.view(np.uint32) >> 16).astype(np.uint16)
    return ("float16", values.astype(np.float16)) if kind == "F16" else ("float32", np.ascontiguousarray(values))


def write_safetensors(path: Path, weights: dict[str, np.ndarray], kind: str) -> None:
    stored = {name: as_stored(values, kind) for name, values in weights.items()}
    entries = {
        name: safetensors.TensorSpec(dtype=dtype, shape=data.shape, data_ptr=data.ctypes.data, data_len=data.nbytes)
        for name, (dtype, data) in stored.items()
    }
    path.write_bytes(safetensors.serialize(entries, {"format": "pt"}))


def write_folder(
    folder: Path,
    weights: dict[str, np.ndarray],
    config: dict[str, Any] | None = None,
    kind: str = "F32",
    shards: int = 1,
) -> Path:
    """A Hugging Face folder; with several shards there is an index."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config or config_json())
    write_json(folder / "tokenizer.json", tokenizer_json())
    settings = {"bos_token": "<|start|>", "eos_token": {"content": "<|end|>"}, "chat_template": TEMPLATE}
    write_json(folder / "tokenizer_config.json", settings)
    write_json(folder / "generation_config.json", {"temperature": 0.6, "top_k": None, "eos_token_id": [259, 260]})
    if shards == 1:
        write_safetensors(folder / "model.safetensors", weights, kind)
        return folder
    places = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = dict(list(weights.items())[shard::shards])
        write_safetensors(folder / name, part, kind)
        places.update(dict.fromkeys(part, name))
    write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": places})
    return folder


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
