"""GGUF tensors under Hugging Face's names and in its row order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from isotherm.model.config import LlamaConfig
from isotherm.model.gguf_file import GgufFile, TensorEntry
from isotherm.model.tensors import Bytes, TensorSource

OUTER_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
NOT_WEIGHTS = ("rope_freqs.weight",)
"""Tensors that are part of the configuration."""


class GgufTensor(TensorSource):
    """One stored tensor. ``rotary_heads`` is the number of heads whose rows llama.cpp has interleaved, else None."""

    def __init__(self, file: GgufFile, entry: TensorEntry, rotary_heads: int | None) -> None:
        self.shape = entry.shape
        self.kind = entry.kind
        self._file = file
        self._entry = entry
        self._rotary_heads = rotary_heads

    def raw(self) -> Bytes:
        stored = self._file.bytes_of(self._entry)
        if self._rotary_heads is None:
            return stored
        order = rotary_row_order(self._rotary_heads, self.shape[0] // self._rotary_heads)
        return stored.reshape(len(order), -1)[order].reshape(stored.shape)


def huggingface_name(name: str) -> str:
    """``blk.3.attn_q.weight`` is ``model.layers.3.self_attn.q_proj.weight``; unknown names stay as they are."""
    stem, _, suffix = name.rpartition(".")
    if stem in OUTER_NAMES:
        return f"{OUTER_NAMES[stem]}.{suffix}"
    parts = stem.split(".")
    if len(parts) == 3 and parts[0] == "blk" and parts[2] in LAYER_NAMES:
        return f"model.layers.{parts[1]}.{LAYER_NAMES[parts[2]]}.{suffix}"
    return name


def rotary_row_order(heads: int, head_dim: int) -> NDArray[np.intp]:
    """For each row in Hugging Face's order, the row of a llama.cpp file that holds it: intp [heads * head_dim].

    llama.cpp rotates neighbouring pairs, Hugging Face the two halves of a head, so the converter
    interleaves the halves. Quantisation blocks lie inside rows: whole rows move, still quantised.
    """
    rows = np.arange(heads * head_dim, dtype=np.intp).reshape(heads, head_dim // 2, 2)
    return rows.swapaxes(1, 2).reshape(-1)


class GgufTensors(Mapping[str, TensorSource]):
    """The tensors of a file by Hugging Face's names."""

    def __init__(self, file: GgufFile, config: LlamaConfig) -> None:
        self._file = file
        self._entries = {
            huggingface_name(name): entry for name, entry in file.tensors.items() if name not in NOT_WEIGHTS
        }
        self._rotary_heads: dict[str, int] = {}
        if config.architecture == "LlamaForCausalLM":
            self._rotary_heads = {"q_proj": config.num_heads, "k_proj": config.num_kv_heads}

    def __getitem__(self, name: str) -> TensorSource:
        module = name.split(".")[-2:-1]
        return GgufTensor(self._file, self._entries[name], self._rotary_heads.get(module[0]) if module else None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
