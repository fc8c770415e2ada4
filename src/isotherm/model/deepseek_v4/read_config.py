"""A ``config.json`` becomes a DeepseekV4Config: the release's own keys, or those that transformers writes.

transformers renames what it reads (layer types instead of ratios, rope parameters by layer kind), so a folder that it
saved does not hold the release's keys any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isotherm.base.errors import SetupError
from isotherm.model.deepseek_v4.config import (
    ARCHITECTURE,
    Attention,
    Compression,
    DeepseekV4Config,
    Experts,
    HyperConnections,
    Yarn,
)
from isotherm.model.fields import Fields

COMPRESSIONS: dict[int, Compression | None] = {0: None, 4: Compression(4, 2), 128: Compression(128, 1)}
"""By the number that ``compress_ratios`` has for a layer."""
LAYER_TYPES = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
NEXT = "DeepseekV41"
"""Begins the architecture's name of the following generation."""


def is_deepseek_v4(raw: Mapping[str, Any]) -> bool:
    """Whether a ``config.json`` speaks of this family, V4.1 included (which ``read_config`` refuses by name)."""
    named = raw.get("architectures")
    architecture = str(named[0]) if isinstance(named, list) and named else ""
    return architecture.startswith("DeepseekV4") or str(raw.get("model_type", "")).startswith("deepseek_v4")


def read_config(raw: Mapping[str, Any], where: str) -> DeepseekV4Config:
    """Read the fields. ``where`` names the file in messages; SetupError for what is missing or cannot be run."""
    _refuse(raw, where)
    fields = Fields(raw, where)
    num_layers, hidden = fields.count("num_hidden_layers"), fields.count("hidden_size")
    attention = _attention(raw, fields, where)
    return DeepseekV4Config(
        vocab_size=fields.count("vocab_size"),
        hidden_size=hidden,
        layers=_layers(raw, num_layers, where),
        attention=attention,
        experts=_experts(raw, fields, num_layers, where),
        hyper=HyperConnections(
            fields.count("hc_mult", 4), fields.count("hc_sinkhorn_iters", 20), fields.positive("hc_eps", 1e-6)
        ),
        rms_norm_eps=fields.positive("rms_norm_eps", 1e-6),
        max_position_embeddings=fields.count("max_position_embeddings", 1 << 20),
        num_mtp=fields.whole("num_nextn_predict_layers", 0),
        stored_dtype=next((v for v in (raw.get("dtype"), raw.get("torch_dtype")) if isinstance(v, str)), None),
    )


def _refuse(raw: Mapping[str, Any], where: str) -> None:
    named = raw.get("architectures")
    architecture = str(named[0]) if isinstance(named, list) and named else ARCHITECTURE
    if architecture.startswith(NEXT) or raw.get("model_type") == "deepseek_v41":
        raise SetupError(
            f"{where}: DeepSeek-V4.1 is not supported. It needs what V4 has not: compression by 2 and 1 with shared "
            "caches, an n-gram memory, FP4 cache rows, lagged hyper-connections and a vision tower."
        )
    if architecture != ARCHITECTURE:
        raise SetupError(f"{where}: architecture {architecture!r} is not supported; {ARCHITECTURE} is.")
    wanted = {
        "hidden_act": "silu",
        "scoring_func": "sqrtsoftplus",
        "n_shared_experts": 1,
        "num_key_value_heads": 1,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "norm_topk_prob": True,
    }
    for name, value in wanted.items():
        if raw.get(name, value) not in (value, None):
            raise SetupError(f"{where}: {name} {raw[name]!r} is not supported; only {value!r} is.")


def _layers(raw: Mapping[str, Any], count: int, where: str) -> tuple[Compression | None, ...]:
    ratios = raw.get("compress_ratios")
    if ratios is None and isinstance(raw.get("layer_types"), list):
        ratios = [LAYER_TYPES.get(name, name) for name in raw["layer_types"]]
    if not isinstance(ratios, list) or len(ratios) < count:
        raise SetupError(f"{where}: compress_ratios must name the ratio of each of the {count} layers, not {ratios!r}.")
    unknown = sorted({str(ratio) for ratio in ratios[:count] if ratio not in COMPRESSIONS})
    if unknown:
        raise SetupError(f"{where}: compression {', '.join(unknown)} is not supported; 0, 4 and 128 are.")
    return tuple(COMPRESSIONS[ratio] for ratio in ratios[:count])


def _attention(raw: Mapping[str, Any], fields: Fields, where: str) -> Attention:
    heads, head_dim = fields.count("num_attention_heads"), fields.count("head_dim")
    rotary = raw.get("partial_rotary_factor")
    default = round(head_dim * rotary) if isinstance(rotary, float) else 64
    rope_dim, groups = fields.count("qk_rope_head_dim", default), fields.count("o_groups")
    if rope_dim % 2 or rope_dim >= head_dim:
        raise SetupError(f"{where}: qk_rope_head_dim {rope_dim} must be even and less than head_dim {head_dim}.")
    if heads % groups:
        raise SetupError(f"{where}: num_attention_heads {heads} is not a multiple of o_groups {groups}.")
    main, compressed = _rope(raw)
    plain = Fields(main, where).positive("rope_theta", fields.positive("rope_theta", 10_000.0))
    stretched = Fields(compressed, where)
    return Attention(
        num_heads=heads,
        head_dim=head_dim,
        rope_dim=rope_dim,
        q_rank=fields.count("q_lora_rank"),
        o_groups=groups,
        o_rank=fields.count("o_lora_rank"),
        window=fields.count("sliding_window", 128),
        index_heads=fields.count("index_n_heads", 64),
        index_dim=fields.count("index_head_dim", 128),
        index_topk=fields.count("index_topk", 512),
        rope_theta=plain,
        compress_rope_theta=stretched.positive("rope_theta", fields.positive("compress_rope_theta", 160_000.0)),
        yarn=_yarn(stretched),
    )


def _rope(raw: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Rope values of plain and of compressed layers; empty where the file keeps them at its top."""
    parameters = raw.get("rope_parameters")
    if isinstance(parameters, Mapping) and isinstance(parameters.get("compress"), Mapping):
        main = parameters.get("main")
        return (main if isinstance(main, Mapping) else {}), parameters["compress"]
    scaling = raw.get("rope_scaling")
    return {}, ({k: v for k, v in scaling.items() if k != "rope_theta"} if isinstance(scaling, Mapping) else {})


def _yarn(fields: Fields) -> Yarn | None:
    kind = fields.get("rope_type") or fields.get("type")
    if kind in (None, "default"):
        return None
    if kind != "yarn":
        raise SetupError(f"{fields.where}: rope scaling {kind!r} is not supported; only 'yarn' is.")
    return Yarn(
        factor=fields.positive("factor", 16.0),
        original_context=fields.count("original_max_position_embeddings"),
        beta_fast=fields.positive("beta_fast", 32.0),
        beta_slow=fields.positive("beta_slow", 1.0),
    )


def _experts(raw: Mapping[str, Any], fields: Fields, num_layers: int, where: str) -> Experts:
    count, active = fields.count("n_routed_experts"), fields.count("num_experts_per_tok")
    if active > count:
        raise SetupError(f"{where}: num_experts_per_tok {active} is more than n_routed_experts {count}.")
    kinds = raw.get("mlp_layer_types")
    if raw.get("num_hash_layers") is None and isinstance(kinds, list):
        hashed = sum(kind == "hash_moe" for kind in kinds)
        if kinds[:hashed] != ["hash_moe"] * hashed:
            raise SetupError(f"{where}: layers that route by token id must come first.")
    else:
        hashed = fields.whole("num_hash_layers", 3)
    return Experts(
        count=count,
        active=active,
        inner=fields.count("moe_intermediate_size"),
        scale=fields.positive("routed_scaling_factor", 1.5),
        hash_layers=min(hashed, num_layers),
        limit=fields.positive("swiglu_limit", 10.0),
    )
