"""Small random networks of every supported shape, saved by transformers, loaded by us: the same logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM

from isotherm.model.checkpoint import open_checkpoint
from isotherm.model.llama_loader import load_llama
from support.checkpoints import LLAMA3
from support.forwards import Forwards

SMALL: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 96,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
FAMILIES = {
    "grouped": (LlamaForCausalLM, LlamaConfig, {}),
    "tied": (LlamaForCausalLM, LlamaConfig, {"tie_word_embeddings": True}),
    "one-kv-head": (LlamaForCausalLM, LlamaConfig, {"num_key_value_heads": 1}),
    "no-groups": (LlamaForCausalLM, LlamaConfig, {"num_key_value_heads": 6}),
    "biases": (LlamaForCausalLM, LlamaConfig, {"attention_bias": True, "mlp_bias": True}),
    "odd-widths": (LlamaForCausalLM, LlamaConfig, {"hidden_size": 60, "intermediate_size": 100, "head_dim": 20}),
    "linear-rope": (LlamaForCausalLM, LlamaConfig, {"rope_parameters": {"rope_type": "linear", "factor": 4.0}}),
    "llama3-rope": (LlamaForCausalLM, LlamaConfig, {"rope_parameters": {**LLAMA3, "rope_theta": 500000.0}}),
    "yarn-rope": (LlamaForCausalLM, LlamaConfig, {"rope_parameters": {**YARN, "rope_theta": 10000.0}}),
    "mistral": (MistralForCausalLM, MistralConfig, {"sliding_window": None}),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, {}),
}


def save(name: str, folder: Path) -> torch.nn.Module:
    """A random network of a family, saved with a tokenizer as its publisher would."""
    network, config, changes = FAMILIES[name]
    values = {**SMALL, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, **changes}
    torch.manual_seed(0)
    model = network(config(**values)).eval()
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.2 if parameter.dim() == 1 else 0.08)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return model


def write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel

    vocabulary = {symbol: index for index, symbol in enumerate(sorted(ByteLevel.alphabet()))}
    tokenizer = Tokenizer(BPE(vocabulary, []))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize("chunk", [200, 33])
@pytest.mark.parametrize("name", FAMILIES)
def test_logits_equal_those_of_transformers(name: str, chunk: int, tmp_path: Path) -> None:
    reference = save(name, tmp_path)
    checkpoint = open_checkpoint(str(tmp_path))
    ours = Forwards(load_llama(checkpoint.config, checkpoint.tensors, dtype=torch.float32, max_model_len=512))
    tokens = torch.randint(0, 300, (200,), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = reference(tokens[None]).logits[0]
    sequence = ours.sequence(tokens.tolist(), 200)
    torch.testing.assert_close(ours.prefill(sequence, chunk), expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(ours.decode([sequence]), expected[-1:], atol=1e-4, rtol=0)
