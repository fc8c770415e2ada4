"""What can be said about a checkpoint without loading it: sizes, storage, what a token costs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from isotherm.base.latent_rows import PRECISIONS
from isotherm.model.checkpoint import Checkpoint
from isotherm.model.deepseek_v4.config import DeepseekV4Config

KV_BYTES = {"float32": 4, "bfloat16": 2}
"""Bytes of one number in the cache of a Llama-type network, by dtype."""


@dataclass(frozen=True, slots=True)
class StorageShare:
    """All tensors of one storage kind together."""

    kind: str
    tensors: int
    parameters: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Facts:
    """Plain data for people and programs.

    ``tokens_that_fit`` is by KV dtype, None when no memory was named. ``sequence_bytes`` is what a running sequence
    takes beside its tokens, by KV dtype; empty where that is nothing.
    """

    name: str
    path: str
    format: str
    config: dict[str, Any]
    parameters: int
    weight_bytes: int
    storage: list[StorageShare]
    kv_bytes_per_token: dict[str, float]
    sequence_bytes: dict[str, int]
    context: int
    tokenizer: dict[str, Any]
    generation_config: dict[str, Any]
    memory_bytes: int | None
    tokens_that_fit: dict[str, int] | None


def inspect_checkpoint(checkpoint: Checkpoint, memory: int | None = None) -> Facts:
    """Count. ``memory`` (bytes) is what weights, as they are stored, and cache may take together."""
    shares: dict[str, list[tuple[int, int]]] = {}
    for tensor in checkpoint.tensors.values():
        shares.setdefault(tensor.kind, []).append((prod(tensor.shape), tensor.nbytes))
    storage = [
        StorageShare(kind, len(sizes), sum(size for size, _ in sizes), sum(nbytes for _, nbytes in sizes))
        for kind, sizes in sorted(shares.items(), key=lambda item: -sum(nbytes for _, nbytes in item[1]))
    ]
    weight_bytes = sum(share.bytes for share in storage)
    config, sequence_bytes = checkpoint.config, {}
    if isinstance(config, DeepseekV4Config):
        kv_bytes = {name: config.kv_bytes_per_token(name) for name in PRECISIONS}
        sequence_bytes = {name: config.sequence_bytes(name) for name in PRECISIONS}
    else:
        kv_bytes = {dtype: float(config.kv_bytes_per_token(size)) for dtype, size in KV_BYTES.items()}
    fit = None
    if memory is not None:
        left = {dtype: max(memory - weight_bytes - sequence_bytes.get(dtype, 0), 0) for dtype in kv_bytes}
        fit = {dtype: int(left[dtype] // nbytes) if nbytes else 0 for dtype, nbytes in kv_bytes.items()}
    return Facts(
        name=checkpoint.name,
        path=str(checkpoint.path),
        format=checkpoint.format,
        config=asdict(checkpoint.config),
        parameters=sum(share.parameters for share in storage),
        weight_bytes=weight_bytes,
        storage=storage,
        kv_bytes_per_token=kv_bytes,
        sequence_bytes=sequence_bytes,
        context=checkpoint.config.max_position_embeddings,
        tokenizer=_tokenizer_facts(checkpoint),
        generation_config=dict(checkpoint.generation_config),
        memory_bytes=memory,
        tokens_that_fit=fit,
    )


def _tokenizer_facts(checkpoint: Checkpoint) -> dict[str, Any]:
    spec = checkpoint.tokenizer
    return {
        "vocab_size": checkpoint.config.vocab_size,
        "special_tokens": len(spec.special_ids),
        "bos": spec.bos_token,
        "adds_bos": spec.add_bos,
        "eos": spec.eos_token,
        "eos_ids": list(spec.eos_ids),
        "chat_template": spec.chat_template is not None,
        "chat_encoding": spec.chat_encoding,
        "effort_texts": None if spec.effort_texts is None else str(spec.effort_texts),
    }
