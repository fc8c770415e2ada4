"""A ``config.json`` of Hugging Face's ``transformers`` becomes a LlamaConfig, or a refusal that says why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isotherm.base.errors import SetupError
from isotherm.model.config import LlamaConfig
from isotherm.model.fields import Fields
from isotherm.model.rope_scaling import check_rope_scaling

ARCHITECTURES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM")


def config_from_huggingface(raw: Mapping[str, Any], where: str) -> LlamaConfig:
    """Read the fields of a ``config.json``. ``where`` names the file in messages.

    ``transformers`` 5 keeps rope values in ``rope_parameters``, earlier ones in ``rope_theta`` and
    ``rope_scaling``; both are read. Defaults are those of ``transformers.LlamaConfig``.
    """
    architecture = _architecture(raw, where)
    fields = Fields(raw, where)
    hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    if raw.get("head_dim") is None and hidden % heads:
        raise SetupError(f"{where}: hidden_size {hidden} is not a multiple of num_attention_heads {heads}.")
    kv_heads = fields.count("num_key_value_heads", heads)
    if heads % kv_heads:
        raise SetupError(f"{where}: num_attention_heads {heads} is not a multiple of num_key_value_heads {kv_heads}.")
    context = fields.count("max_position_embeddings", 2048)
    _refuse_variants(raw, context, where)
    rope = _mapping(raw, "rope_parameters", where) or _mapping(raw, "rope_scaling", where)
    theta = Fields(rope, where).positive("rope_theta", fields.positive("rope_theta", 10_000.0))
    qwen = architecture == "Qwen2ForCausalLM"
    bias = qwen or fields.flag("attention_bias", False)
    return LlamaConfig(
        architecture=architecture,
        hidden_size=hidden,
        intermediate_size=fields.count("intermediate_size"),
        num_layers=fields.count("num_hidden_layers"),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=fields.count("head_dim", max(hidden // heads, 1)),
        vocab_size=fields.count("vocab_size"),
        rms_norm_eps=fields.positive("rms_norm_eps", 1e-6),
        rope_theta=theta,
        rope_scaling=check_rope_scaling(rope, context, where),
        max_position_embeddings=context,
        tie_word_embeddings=fields.flag("tie_word_embeddings", False),
        attention_bias=bias,
        attention_output_bias=bias and not qwen,
        mlp_bias=fields.flag("mlp_bias", False),
        stored_dtype=_stored_dtype(raw),
    )


def _architecture(raw: Mapping[str, Any], where: str) -> str:
    named = raw.get("architectures")
    architecture = named[0] if isinstance(named, list) and named else None
    if architecture not in ARCHITECTURES:
        raise SetupError(
            f"{where}: architecture {architecture or raw.get('model_type')!r} is not supported; "
            f"supported are {', '.join(ARCHITECTURES)}."
        )
    return str(architecture)


def _mapping(raw: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    value = raw.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SetupError(f"{where}: {name} must be an object, not {value!r}.")
    return value


def _refuse_variants(raw: Mapping[str, Any], context: int, where: str) -> None:
    """Settings inside a supported architecture that would silently change the output."""
    window = raw.get("sliding_window") if raw.get("use_sliding_window", True) else None
    if window is not None and not (isinstance(window, int) and window >= context):
        raise SetupError(f"{where}: sliding-window attention ({window!r} tokens) is not supported.")
    activation = raw.get("hidden_act", "silu")
    if activation != "silu":
        raise SetupError(f"{where}: hidden_act {activation!r} is not supported; only 'silu' is.")
    if raw.get("quantization_config"):
        raise SetupError(f"{where}: quantised safetensors are not supported; use the unquantised model or a GGUF file.")
    rotary = raw.get("partial_rotary_factor", 1.0)
    if rotary != 1.0:
        raise SetupError(f"{where}: partial_rotary_factor {rotary} is not supported; only 1.0 is.")


def _stored_dtype(raw: Mapping[str, Any]) -> str | None:
    named = raw.get("dtype") or raw.get("torch_dtype")
    return named if isinstance(named, str) else None
