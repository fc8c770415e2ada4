"""The metadata of a GGUF file becomes a LlamaConfig, or a refusal that says why."""

from __future__ import annotations

import math
from typing import Any

from isotherm.base.errors import SetupError
from isotherm.model.config import LlamaConfig
from isotherm.model.fields import Fields
from isotherm.model.gguf_file import GgufFile
from isotherm.model.rope_scaling import FREQUENCY_FACTORS, check_rope_scaling
from isotherm.model.tensors import dequantize

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}
"""GGUF's names and what ``transformers`` calls the same network (Mistral without a window is ``llama``)."""
FILE_TYPES = {0: "float32", 1: "float16", 32: "bfloat16"}


def config_from_gguf(file: GgufFile) -> LlamaConfig:
    """Read the network's shape. Biases and tied embeddings follow from which tensors exist."""
    architecture = file.text("general.architecture")
    if architecture not in ARCHITECTURES:
        known = ", ".join(sorted(ARCHITECTURES))
        raise SetupError(f"{file.path}: GGUF architecture {architecture!r} is not supported; supported are {known}.")
    _refuse_variants(file, architecture)
    fields = Fields(file.metadata, str(file.path), f"{architecture}.")
    hidden, heads = fields.count("embedding_length"), fields.count("attention.head_count")
    kv_heads = fields.count("attention.head_count_kv", heads)
    head_dim = fields.count("attention.key_length", max(hidden // heads, 1))
    if heads % kv_heads or fields.count("attention.value_length", head_dim) != head_dim:
        raise SetupError(f"{file.path}: {heads} query heads, {kv_heads} key heads of {head_dim} do not fit together.")
    if fields.count("rope.dimension_count", head_dim) != head_dim:
        raise SetupError(f"{file.path}: rotary embeddings over a part of each head are not supported.")
    context = fields.count("context_length")
    embedding = file.tensors.get("token_embd.weight")
    return LlamaConfig(
        architecture=ARCHITECTURES[architecture],
        hidden_size=hidden,
        intermediate_size=fields.count("feed_forward_length"),
        num_layers=fields.count("block_count"),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        vocab_size=embedding.shape[0] if embedding else fields.count("vocab_size"),
        rms_norm_eps=_decimal(fields.positive("attention.layer_norm_rms_epsilon", 1e-5)),
        rope_theta=_decimal(fields.positive("rope.freq_base", 10_000.0)),
        rope_scaling=_rope_scaling(file, fields, context, head_dim),
        max_position_embeddings=context,
        tie_word_embeddings="output.weight" not in file.tensors,
        attention_bias="blk.0.attn_q.bias" in file.tensors,
        attention_output_bias="blk.0.attn_output.bias" in file.tensors,
        mlp_bias="blk.0.ffn_up.bias" in file.tensors,
        stored_dtype=_stored_dtype(file),
    )


def _decimal(value: float) -> float:
    """A number that was written as float32, as people write it.

    1e-5 would otherwise come back as 9.999999747378752e-06 and disagree with the same model read from a config.json.
    """
    return float(f"{value:.7g}")


def _refuse_variants(file: GgufFile, architecture: str) -> None:
    unsupported = {
        "expert_count": "mixture-of-experts layers",
        "attention.sliding_window": "sliding-window attention",
        "logit_scale": "scaled logits",
        "residual_scale": "scaled residuals",
        "embedding_scale": "scaled embeddings",
        "attention.scale": "a custom attention scale",
    }
    for name, meaning in unsupported.items():
        value = file.metadata.get(f"{architecture}.{name}", 0)
        if not isinstance(value, int | float) or value != 0:
            raise SetupError(f"{file.path}: {meaning} ({architecture}.{name}) are not supported.")


def _rope_scaling(file: GgufFile, fields: Fields, context: int, head_dim: int) -> dict[str, Any] | None:
    """GGUF spells linear and yarn as metadata, llama3 as a tensor of divisors."""
    entry = file.tensors.get("rope_freqs.weight")
    if entry is not None:
        factors = dequantize(file.bytes_of(entry), entry.kind).reshape(-1)
        if factors.shape != (head_dim // 2,) or not bool(((factors > 0) & (factors < math.inf)).all()):
            raise SetupError(f"{file.path}: rope_freqs.weight must hold {head_dim // 2} positive numbers.")
        return {"rope_type": FREQUENCY_FACTORS, "factors": tuple(float(value) for value in factors)}
    kind = file.text(fields.prefix + "rope.scaling.type")
    if kind in (None, "none"):
        return None
    raw = {
        "rope_type": kind,
        "factor": fields.get("rope.scaling.factor"),
        "original_max_position_embeddings": fields.get("rope.scaling.original_context_length"),
        "attention_factor": _attention_factor(fields),
        "beta_fast": fields.get("rope.scaling.yarn_beta_fast"),
        "beta_slow": fields.get("rope.scaling.yarn_beta_slow"),
    }
    return check_rope_scaling(
        {name: value for name, value in raw.items() if value is not None}, context, str(file.path)
    )


def _stored_dtype(file: GgufFile) -> str | None:
    kind = file.metadata.get("general.file_type")
    return FILE_TYPES.get(kind) if isinstance(kind, int) else None


def _attention_factor(fields: Fields) -> float | None:
    """llama.cpp multiplies its factor with yarn's own 1 + 0.1 ln(stretch); Hugging Face names the product."""
    own, stretch = fields.get("rope.scaling.attn_factor"), fields.get("rope.scaling.factor")
    if not isinstance(own, float) or own == 1.0 or not isinstance(stretch, float) or stretch <= 1:
        return None
    return float(own * (1 + 0.1 * math.log(stretch)))
