"""Nano's shape, and how its weights begin."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import DeepseekV4Config, DeepseekV4ForCausalLM

CONTEXT = 8192
NANO: dict[str, Any] = {
    "hidden_size": 128,
    "num_hidden_layers": 6,
    "compress_ratios": [0, 4, 128, 4, 128, 4],
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 160,
    "qk_rope_head_dim": 32,
    "rope_theta": 200.0,
    "compress_rope_theta": 1000.0,
    "q_lora_rank": 64,
    "o_groups": 2,
    "o_lora_rank": 64,
    "sliding_window": 128,
    "index_n_heads": 32,
    "index_head_dim": 32,
    "index_topk": 64,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 96,
    "num_hash_layers": 2,
    "hc_mult": 4,
    "hc_sinkhorn_iters": 20,
    "max_position_embeddings": CONTEXT,
    "rope_scaling": {
        "type": "yarn",
        "factor": 16,
        "original_max_position_embeddings": 512,
        "beta_fast": 32,
        "beta_slow": 1,
    },
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
"""Without the vocabulary's size. 64 of 256 rows are chosen at 1,024 tokens; 128 plain and 32 turned numbers a head.

A row is key and value at once, so it has to hold what is looked for beside what is found. Sixteen pairs turn at thetas
that suit a window of 128 and a context of 8k: with the release's thetas and a quarter of the pairs only two or three
of them tell neighbours apart, and copying took twice as long to form.
"""

PROMPTS = '''"""Prompts are laid out by deepseek-recipe, with its REASONING_EFFORT_PROMPTS of 0731."""
'''
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
KEPT = 0.25
"""Share that a block's input takes of each of four equal streams: their mean."""


def build(vocab_size: int, seed: int, changes: dict[str, Any] | None = None) -> Any:
    """A DeepseekV4ForCausalLM in float32 that begins like a plain residual network."""
    torch.manual_seed(seed)
    model = DeepseekV4ForCausalLM(DeepseekV4Config(**(NANO | (changes or {})), vocab_size=vocab_size))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            _begin(name, parameter, model.config)
        for name, buffer in model.named_buffers():
            if name.endswith("tid2eid"):
                buffer.copy_(_routes(buffer.shape[0], model.config.n_routed_experts, buffer.shape[1]))
    return model


def _begin(name: str, parameter: Tensor, config: Any) -> None:
    """Matrices by their inputs, those that add to the streams smaller; streams kept apart and read as their mean."""
    end = name.rsplit(".", 1)[-1]
    count = config.hc_mult
    if end == "base":
        parameter.zero_().normal_(0, 0.1)
        parameter[:count] += math.log(KEPT / (1 - KEPT))
        # The mixing matrix is nearly the identity: a softmax over 4 on the diagonal and 0 beside it.
        parameter[2 * count :] += 4.0 * torch.eye(count).flatten()
    elif end == "hc_base":
        parameter.fill_(math.log(KEPT / (1 - KEPT)))
    elif end in ("scale", "hc_scale"):
        parameter.fill_(0.1)
    elif end == "position_bias":
        parameter.normal_(0, 0.1)
    elif parameter.dim() > 1:
        deviation = 0.3 if "embed_tokens" in name else parameter.shape[-1] ** -0.5
        if "o_b_proj" in name or "down_proj" in name:
            deviation *= (2 * config.num_hidden_layers) ** -0.5
        parameter.normal_(0, deviation)


def _routes(vocab_size: int, experts: int, active: int) -> Tensor:
    """Different experts for each token, each expert for as many tokens as any other."""
    order = torch.randperm(vocab_size)
    shifts = torch.stack([torch.randperm(experts - 1)[: active - 1] + 1 for _ in range(vocab_size)])
    first = (order % experts)[:, None]
    return torch.cat([first, (first + shifts) % experts], 1)


def balance(model: Any, loads: list[Tensor], step: float) -> None:
    """Move each score router's bias a ``step`` towards experts that got less than their share (aux-loss-free)."""
    gates = [layer.mlp.gate for layer in model.model.layers if not layer.mlp.is_hash]
    for gate, load in zip(gates, loads, strict=True):
        tokens = load.float()
        gate.e_score_correction_bias += step * torch.sign(tokens.mean() - tokens)


def load(folder: Path) -> Any:
    """What ``save`` wrote, in float32."""
    return DeepseekV4ForCausalLM.from_pretrained(folder, dtype=torch.float32)


def save(model: Any, folder: Path, tokenizer: Path) -> None:
    """What ``isotherm serve`` takes: weights, configuration, tokenizer, and the mark of the effort texts."""
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(folder)
    for name in TOKENIZER_FILES:
        (folder / name).write_bytes((tokenizer / name).read_bytes())
    # This name tells the server which table of effort texts the checkpoint was made with.
    (folder / "encoding").mkdir(exist_ok=True)
    (folder / "encoding" / "encoding_dsv4.py").write_text(PROMPTS)
    generation = {"do_sample": True, "temperature": 1.0, "top_p": 1.0, "bos_token_id": 0, "eos_token_id": 1}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
