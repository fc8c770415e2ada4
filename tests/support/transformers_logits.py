"""What transformers computes from a DeepSeek-V4 checkpoint: the reference of tests of exactness."""

from __future__ import annotations

from pathlib import Path

import torch


def transformers_logits(folder: Path, tokens: torch.Tensor) -> torch.Tensor:
    """Logits [T, V] of one forward over tokens int64 [T], in float32."""
    from transformers import DeepseekV4ForCausalLM

    reference = DeepseekV4ForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.inference_mode():
        logits: torch.Tensor = reference(tokens[None]).logits[0]
    return logits
