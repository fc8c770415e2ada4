"""The shape of a DeepSeek-V4 network, whichever of its two configuration files described it."""

from __future__ import annotations

from dataclasses import dataclass

from isotherm.base.latent_rows import index_row_bytes, latent_row_bytes

ARCHITECTURE = "DeepseekV4ForCausalLM"


@dataclass(frozen=True, slots=True)
class Compression:
    """How a layer pools older tokens: ``ratio`` tokens to a row, from ``overlap`` windows each.

    ``overlap`` 2 pools a window together with the one before it, 1 a window alone. ``ape`` says whether a learned
    position is added to the gates. Layers without compression have none of this.
    """

    ratio: int
    overlap: int
    ape: bool = True

    @property
    def indexed(self) -> bool:
        """Whether an indexer chooses among the rows; the others are few enough to be read all."""
        return self.overlap > 1


@dataclass(frozen=True, slots=True)
class Yarn:
    """Stretching of rotary frequencies (Peng et al. 2023), without a factor on the attention scores."""

    factor: float
    original_context: int
    beta_fast: float
    beta_slow: float


@dataclass(frozen=True, slots=True)
class Attention:
    """Sizes of attention: one latent row of ``head_dim`` is key and value of all heads, its last dims rotated."""

    num_heads: int
    head_dim: int
    rope_dim: int
    q_rank: int
    o_groups: int
    o_rank: int
    window: int
    index_heads: int
    index_dim: int
    index_topk: int
    rope_theta: float
    compress_rope_theta: float
    yarn: Yarn | None


@dataclass(frozen=True, slots=True)
class Experts:
    """Sizes of the mixture: ``hash_layers`` first layers route by token id, the others by score."""

    count: int
    active: int
    inner: int
    scale: float
    hash_layers: int
    limit: float


@dataclass(frozen=True, slots=True)
class HyperConnections:
    """Residual streams (Xie et al. 2025): how many, and how the mixing matrix is made doubly stochastic."""

    streams: int
    iterations: int
    eps: float


@dataclass(frozen=True, slots=True)
class DeepseekV4Config:
    """All of it. ``layers`` has a layer's compression or None; ``num_mtp`` counts draft blocks, which are not run."""

    vocab_size: int
    hidden_size: int
    layers: tuple[Compression | None, ...]
    attention: Attention
    experts: Experts
    hyper: HyperConnections
    rms_norm_eps: float
    max_position_embeddings: int
    num_mtp: int
    stored_dtype: str | None = None
    architecture: str = ARCHITECTURE

    @property
    def num_layers(self) -> int:
        return len(self.layers)

    @property
    def head_dim(self) -> int:
        return self.attention.head_dim

    def kv_bytes_per_token(self, precision: str) -> float:
        """Bytes that a token of context takes in all layers together: its part of compressed rows and of their keys."""
        a, total = self.attention, 0.0
        for how in self.layers:
            if how is not None:
                row = latent_row_bytes(precision, a.head_dim, a.rope_dim)
                total += (row + (index_row_bytes(precision, a.index_dim) if how.indexed else 0)) / how.ratio
        return total

    def sequence_bytes(self, precision: str) -> int:
        """Bytes that a running sequence takes whatever its length: window rows, and compressors' states in float32."""
        a = self.attention
        total = self.num_layers * a.window * latent_row_bytes(precision, a.head_dim, a.rope_dim)
        for how in self.layers:
            if how is not None:
                width = a.head_dim + (a.index_dim if how.indexed else 0)
                total += how.ratio * how.overlap * 2 * how.overlap * width * 4
        return total

    def routes_by_hash(self, layer: int) -> bool:
        return layer < self.experts.hash_layers
