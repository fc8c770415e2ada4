"""Name and shape of every tensor of a DeepSeek-V4 network, by the names of the release.

What transformers writes is read too: its names are turned into these (``from_transformers``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from isotherm.model.deepseek_v4.config import Compression, DeepseekV4Config

Shape = tuple[int, ...]
HYPER = ("hc_attn", "hc_ffn")
"""The two sublayers' hyper-connections; each has ``_fn``, ``_base`` and ``_scale``."""


def tensor_shapes(config: DeepseekV4Config) -> dict[str, Shape]:
    """What a complete checkpoint holds, draft blocks left out."""
    hidden, mixed = config.hidden_size, config.hyper.streams * config.hidden_size
    shapes: dict[str, Shape] = {
        "embed.weight": (config.vocab_size, hidden),
        "head.weight": (config.vocab_size, hidden),
        "norm.weight": (hidden,),
        "hc_head_fn": (config.hyper.streams, mixed),
        "hc_head_base": (config.hyper.streams,),
        "hc_head_scale": (1,),
    }
    for index, compression in enumerate(config.layers):
        prefix = f"layers.{index}."
        parts = (*_hyper(config), *_attention(config, compression), *_experts(config, index))
        shapes.update({prefix + name: shape for name, shape in parts})
    return shapes


def _hyper(config: DeepseekV4Config) -> Iterator[tuple[str, Shape]]:
    streams, hidden = config.hyper.streams, config.hidden_size
    mixes = (2 + streams) * streams
    for name in HYPER:
        yield f"{name}_fn", (mixes, streams * hidden)
        yield f"{name}_base", (mixes,)
        yield f"{name}_scale", (3,)
    yield "attn_norm.weight", (hidden,)
    yield "ffn_norm.weight", (hidden,)


def _attention(config: DeepseekV4Config, compression: Compression | None) -> Iterator[tuple[str, Shape]]:
    a, hidden = config.attention, config.hidden_size
    group_width = a.num_heads * a.head_dim // a.o_groups
    yield "attn.wq_a.weight", (a.q_rank, hidden)
    yield "attn.q_norm.weight", (a.q_rank,)
    yield "attn.wq_b.weight", (a.num_heads * a.head_dim, a.q_rank)
    yield "attn.wkv.weight", (a.head_dim, hidden)
    yield "attn.kv_norm.weight", (a.head_dim,)
    yield "attn.wo_a.weight", (a.o_groups * a.o_rank, group_width)
    yield "attn.wo_b.weight", (hidden, a.o_groups * a.o_rank)
    yield "attn.attn_sink", (a.num_heads,)
    if compression is None:
        return
    yield from _compressor("attn.compressor.", compression, a.head_dim, hidden)
    if compression.indexed:
        yield "attn.indexer.wq_b.weight", (a.index_heads * a.index_dim, a.q_rank)
        yield "attn.indexer.weights_proj.weight", (a.index_heads, hidden)
        yield from _compressor("attn.indexer.compressor.", compression, a.index_dim, hidden)


def _compressor(prefix: str, compression: Compression, width: int, hidden: int) -> Iterator[tuple[str, Shape]]:
    channels = compression.overlap * width
    if compression.ape:
        yield prefix + "ape", (compression.ratio, channels)
    yield prefix + "wkv.weight", (channels, hidden)
    yield prefix + "wgate.weight", (channels, hidden)
    yield prefix + "norm.weight", (width,)


def _experts(config: DeepseekV4Config, layer: int) -> Iterator[tuple[str, Shape]]:
    e, hidden = config.experts, config.hidden_size
    yield "ffn.gate.weight", (e.count, hidden)
    if config.routes_by_hash(layer):
        yield "ffn.gate.tid2eid", (config.vocab_size, e.active)
    else:
        yield "ffn.gate.bias", (e.count,)
    for expert in (*(f"experts.{index}" for index in range(e.count)), "shared_experts"):
        for name, shape in (("w1", (e.inner, hidden)), ("w2", (hidden, e.inner)), ("w3", (e.inner, hidden))):
            yield f"ffn.{expert}.{name}.weight", shape


_RENAMED = (
    (r"^lm_head\.", "head."),
    (r"^model\.", ""),
    (r"^embed_tokens\.", "embed."),
    (r"^hc_head\.hc_(\w+)$", r"hc_head_\1"),
    (r"\.(attn|ffn)_hc\.(\w+)$", r".hc_\1_\2"),
    (r"\.input_layernorm\.", ".attn_norm."),
    (r"\.post_attention_layernorm\.", ".ffn_norm."),
    (r"\.self_attn\.", ".attn."),
    (r"\.attn\.norm\.", ".attn.kv_norm."),
    (r"\.q_a_proj\.", ".wq_a."),
    (r"\.q_a_norm\.", ".q_norm."),
    (r"\.compressor\.indexer\.scorer\.weights_proj\.", ".indexer.weights_proj."),
    (r"\.compressor\.indexer\.q_b_proj\.", ".indexer.wq_b."),
    (r"\.compressor\.indexer\.(position_bias|kv_proj|gate_proj|kv_norm)", r".indexer.compressor.\1"),
    (r"\.q_b_proj\.", ".wq_b."),
    (r"\.o_a_proj\.", ".wo_a."),
    (r"\.o_b_proj\.", ".wo_b."),
    (r"\.sinks$", ".attn_sink"),
    (r"\.position_bias$", ".ape"),
    (r"(\.compressor)\.kv_proj\.", r"\1.wkv."),
    (r"(\.compressor)\.gate_proj\.", r"\1.wgate."),
    (r"(\.compressor)\.kv_norm\.", r"\1.norm."),
    (r"\.kv_proj\.", ".wkv."),
    (r"\.mlp\.", ".ffn."),
    (r"\.e_score_correction_bias$", ".bias"),
    (r"\.shared_experts\.gate_proj\.", ".shared_experts.w1."),
    (r"\.shared_experts\.down_proj\.", ".shared_experts.w2."),
    (r"\.shared_experts\.up_proj\.", ".shared_experts.w3."),
)


def from_transformers(name: str) -> str:
    """A name that transformers writes, or a release's own, as the release has it.

    Fused experts keep their two names (``ffn.experts.gate_up_proj``, ``ffn.experts.down_proj``).
    """
    for pattern, replacement in _RENAMED:
        name = re.sub(pattern, replacement, name)
    return name
