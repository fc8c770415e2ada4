"""Turn a Llama-type GGUF into a Hugging Face folder, for peers that cannot read the file itself.

    python benchmarks/peers/export_hf.py MODEL.gguf OUT_DIR [--dtype bfloat16|float32]

The folder holds the same weights, dequantised: what a peer computes with it differs from the 4-bit file
only by rounding to ``--dtype``. It is written by hand from the file's own metadata rather than through
Isotherm's loader, so that a mistake there cannot hide in both sides of a comparison.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

CONTROL = 3
"""llama.cpp's token type of special tokens."""

LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def hf_name(name: str) -> str:
    """``blk.3.attn_q.weight`` -> ``model.layers.3.self_attn.q_proj.weight``."""
    stem = name.removesuffix(".weight")
    if stem.startswith("blk."):
        _, layer, part = stem.split(".")
        return f"model.layers.{layer}.{LAYER_NAMES[part]}.weight"
    return f"{TOP_NAMES[stem]}.weight"


def unpermute(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of q or k [heads * head_dim, in] back from llama.cpp's interleaved rotary order to halves."""
    rows, width = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, width)
    return pairs.swapaxes(1, 2).reshape(rows, width)


def metadata(reader: gguf.GGUFReader) -> dict[str, Any]:
    return {name: field.contents() for name, field in reader.fields.items()}


def config(meta: dict[str, Any], tied: bool, dtype: str) -> dict[str, Any]:
    heads = meta["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": meta["llama.embedding_length"],
        "intermediate_size": meta["llama.feed_forward_length"],
        "num_hidden_layers": meta["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": meta["llama.attention.head_count_kv"],
        "head_dim": meta["llama.embedding_length"] // heads,
        "vocab_size": meta["llama.vocab_size"],
        "max_position_embeddings": meta["llama.context_length"],
        "rms_norm_eps": round(float(meta["llama.attention.layer_norm_rms_epsilon"]), 10),
        "rope_theta": float(meta["llama.rope.freq_base"]),
        "tie_word_embeddings": tied,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "pad_token_id": meta["tokenizer.ggml.padding_token_id"],
        "torch_dtype": dtype,
    }


def weights(reader: gguf.GGUFReader, meta: dict[str, Any], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    heads = {"attn_q": meta["llama.attention.head_count"], "attn_k": meta["llama.attention.head_count_kv"]}
    result = {}
    for tensor in reader.tensors:
        array = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        part = tensor.name.split(".")[-2]
        if part in heads:
            array = unpermute(array, heads[part])
        result[hf_name(tensor.name)] = torch.from_numpy(np.ascontiguousarray(array)).to(dtype)
    return result


def tokenizer(meta: dict[str, Any]) -> Tokenizer:
    """Byte-level BPE with single digits, which is what ``tokenizer.ggml.pre = smollm`` stands for."""
    if (meta["tokenizer.ggml.model"], meta["tokenizer.ggml.pre"]) != ("gpt2", "smollm"):
        raise SystemExit("export_hf.py knows the tokeniser of SmolLM alone; give peers the original folder instead")
    tokens = meta["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in meta["tokenizer.ggml.merges"]]
    built = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    built.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    built.decoder = decoders.ByteLevel()
    special = [t for t, kind in zip(tokens, meta["tokenizer.ggml.token_type"], strict=True) if kind == CONTROL]
    built.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return built


def tokenizer_config(meta: dict[str, Any]) -> dict[str, Any]:
    tokens = meta["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[meta["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[meta["tokenizer.ggml.eos_token_id"]],
        "pad_token": tokens[meta["tokenizer.ggml.padding_token_id"]],
        "unk_token": tokens[meta["tokenizer.ggml.unknown_token_id"]],
        "chat_template": meta["tokenizer.chat_template"],
        "model_max_length": meta["llama.context_length"],
        "clean_up_tokenization_spaces": False,
    }


def export(source: Path, target: Path, dtype: str = "bfloat16") -> None:
    """Write config, weights and tokeniser of ``source`` into the folder ``target``, created if absent."""
    reader = gguf.GGUFReader(source)
    meta = metadata(reader)
    tensors = weights(reader, meta, getattr(torch, dtype))
    target.mkdir(parents=True, exist_ok=True)
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    tokenizer(meta).save(str(target / "tokenizer.json"))
    ids = {key: meta[f"tokenizer.ggml.{key}"] for key in ("bos_token_id", "eos_token_id")}
    files = {
        "config.json": config(meta, "lm_head.weight" not in tensors, dtype),
        "tokenizer_config.json": tokenizer_config(meta),
        "generation_config.json": {"_from_model_config": True, **ids},
    }
    for name, content in files.items():
        (target / name).write_text(json.dumps(content, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    args = parser.parse_args()
    export(args.source, args.target, args.dtype)


if __name__ == "__main__":
    main()
