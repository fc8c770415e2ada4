"""The shape of a Llama-type network, the same whether it was read from a config.json or from a GGUF header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """Sizes and constants of a decoder with RMSNorm, rotary positions, grouped queries and a SwiGLU MLP.

    ``rope_scaling`` is None for plain rotary embeddings, otherwise a checked dict with ``rope_type``
    (see ``model.rope_scaling``). ``attention_bias`` speaks of q, k and v, ``attention_output_bias`` of o.
    ``stored_dtype`` is what the publisher trained or saved in (``bfloat16``...), None if unknown.
    """

    architecture: str
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: Mapping[str, Any] | None
    max_position_embeddings: int
    tie_word_embeddings: bool
    attention_bias: bool = False
    attention_output_bias: bool = False
    mlp_bias: bool = False
    stored_dtype: str | None = None

    def kv_bytes_per_token(self, element_bytes: int) -> int:
        """Bytes that keys and values of one token take in all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * element_bytes


def tensor_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Name and row-major shape of every tensor that a checkpoint of this shape has, in Hugging Face's naming."""
    hidden, mlp = config.hidden_size, config.intermediate_size
    queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    linears = {
        "self_attn.q_proj": (queries, hidden, config.attention_bias),
        "self_attn.k_proj": (keys, hidden, config.attention_bias),
        "self_attn.v_proj": (keys, hidden, config.attention_bias),
        "self_attn.o_proj": (hidden, queries, config.attention_output_bias),
        "mlp.gate_proj": (mlp, hidden, config.mlp_bias),
        "mlp.up_proj": (mlp, hidden, config.mlp_bias),
        "mlp.down_proj": (hidden, mlp, config.mlp_bias),
    }
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config.vocab_size, hidden)}
    for layer in range(config.num_layers):
        prefix = f"model.layers.{layer}."
        shapes[prefix + "input_layernorm.weight"] = (hidden,)
        shapes[prefix + "post_attention_layernorm.weight"] = (hidden,)
        for name, (rows, columns, bias) in linears.items():
            shapes[prefix + name + ".weight"] = (rows, columns)
            if bias:
                shapes[prefix + name + ".bias"] = (rows,)
    shapes["model.norm.weight"] = (hidden,)
    if not config.tie_word_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, hidden)
    return shapes
