"""Rotary position embeddings (Su et al. 2021) and the stretched kinds that checkpoints name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from isotherm.model.config import LlamaConfig
from isotherm.model.rope_scaling import FREQUENCY_FACTORS


def frequencies(config: LlamaConfig) -> tuple[Tensor, float]:
    """Inverse frequencies float32 [E/2] and the factor by which cos and sin are multiplied."""
    exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    plain = 1.0 / config.rope_theta**exponent
    scaling = config.rope_scaling
    if scaling is None:
        return plain, 1.0
    if scaling["rope_type"] == FREQUENCY_FACTORS:
        return plain / torch.tensor(scaling["factors"], dtype=torch.float32), 1.0
    if scaling["rope_type"] == "linear":
        return plain / scaling["factor"], 1.0
    if scaling["rope_type"] == "llama3":
        return _llama3(plain, scaling), 1.0
    return _yarn(plain, config, scaling)


def tables(config: LlamaConfig, length: int) -> tuple[Tensor, Tensor]:
    """cos and sin for positions 0..length, float32 [length, E/2] each."""
    inverse, factor = frequencies(config)
    angle = torch.outer(torch.arange(length, dtype=torch.float32), inverse)
    return angle.cos() * factor, angle.sin() * factor


def _llama3(plain: Tensor, scaling: Mapping[str, Any]) -> Tensor:
    """Llama 3.1: long wavelengths are divided by the factor, short ones kept, those between blended."""
    turns = scaling["original_max_position_embeddings"] * plain / (2 * math.pi)
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    keep = torch.clamp((turns - low) / (high - low), 0, 1)
    stretched: Tensor = plain / scaling["factor"]
    return plain * keep + stretched * (1 - keep)


def _yarn(plain: Tensor, config: LlamaConfig, scaling: Mapping[str, Any]) -> tuple[Tensor, float]:
    """YaRN (Peng et al. 2023): interpolation by parts, and a temperature on the attention logits."""
    size, factor, original = config.head_dim, scaling["factor"], scaling["original_max_position_embeddings"]

    def dimension(turns: float) -> float:
        return size * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(config.rope_theta))

    first = max(math.floor(dimension(scaling.get("beta_fast", 32))), 0)
    last = min(math.ceil(dimension(scaling.get("beta_slow", 1))), size - 1)
    ramp = ((torch.arange(size // 2, dtype=torch.float32) - first) / max(last - first, 1e-3)).clamp(0, 1)
    return plain / factor * ramp + plain * (1 - ramp), _yarn_factor(scaling)


def _yarn_factor(scaling: Mapping[str, Any]) -> float:
    if "attention_factor" in scaling:
        return float(scaling["attention_factor"])

    def temperature(weight: float) -> float:
        return 0.1 * weight * math.log(scaling["factor"]) + 1.0 if scaling["factor"] > 1 else 1.0

    if "mscale" in scaling and "mscale_all_dim" in scaling:
        return temperature(scaling["mscale"]) / temperature(scaling["mscale_all_dim"])
    return temperature(1.0)
