"""A small random checkpoint in the release's format, complete to the last tensor, to try a deployment without 160 GB.

Everything that initialisers leave at zero or one is random here: hash routes, sinks, positions of compressors, routing
biases, hyper-connections. Weights are FP8 in blocks and experts FP4, as the release stores them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotherm.model.deepseek_v4.names import tensor_shapes
from isotherm.model.deepseek_v4.read_config import read_config
from isotherm.model.deepseek_v4.tiny_tokenizer import tokenizer_config, tokenizer_json
from isotherm.model.low_precision import FP4_GROUP, FP8_BLOCK, FP8_MAX, power_of_two_scale, to_e4m3, to_e8m0

TINY: dict[str, Any] = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "model_type": "deepseek_v4",
    "vocab_size": 512,
    "hidden_size": 128,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 80,
    "qk_rope_head_dim": 16,
    "q_lora_rank": 48,
    "o_groups": 2,
    "o_lora_rank": 32,
    "sliding_window": 16,
    "compress_ratios": [0, 4, 128, 4, 128, 0],
    "compress_rope_theta": 160000.0,
    "rope_theta": 10000.0,
    "rope_scaling": {
        "type": "yarn",
        "factor": 16,
        "original_max_position_embeddings": 256,
        "beta_fast": 32,
        "beta_slow": 1,
    },
    "max_position_embeddings": 1 << 20,
    "index_n_heads": 32,
    "index_head_dim": 32,
    "index_topk": 8,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 64,
    "scoring_func": "sqrtsoftplus",
    "topk_method": "noaux_tc",
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.5,
    "num_hash_layers": 2,
    "swiglu_limit": 10.0,
    "hc_mult": 4,
    "hc_sinkhorn_iters": 20,
    "hc_eps": 1e-6,
    "rms_norm_eps": 1e-6,
    "num_nextn_predict_layers": 1,
    "hidden_act": "silu",
    "attention_bias": False,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "torch_dtype": "bfloat16",
}

PLAIN_BF16 = ("embed.", "head.", "norm.", "wkv.weight", "wgate.weight", "weights_proj.", "ffn.gate.weight")
"""Parts of names whose tensors the release keeps in bfloat16. (The attention's own ``wkv`` is not among them.)"""

_SIZES = {"attn_sink": (0, 1), "ape": (0, 1), "_scale": (1, 0.3), "_base": (0, 0.5), "gate.bias": (0, 0.2)}
"""Mean and deviation of tensors that are no matrices and no norms, by the end of their names."""

Stored = tuple[str, NDArray[Any]]
"""Kind as safetensors calls it, and the bytes in an array of the tensor's shape."""


def write_tiny(folder: Path, seed: int = 0, changes: dict[str, Any] | None = None, *, release: bool = False) -> None:
    """Write configuration, weights and tokenizer into ``folder``, which must not exist yet or be empty.

    ``changes`` override entries of the configuration. Weights are bfloat16, which every loader reads; ``release``
    stores them as the release does: FP8 with a power-of-two scale for 128 x 128 values, experts in FP4.
    """
    values = {**TINY, **(changes or {})}
    if release:
        values["quantization_config"] = {
            "quant_method": "fp8",
            "fmt": "e4m3",
            "activation_scheme": "dynamic",
            "scale_fmt": "ue8m0",
            "weight_block_size": [FP8_BLOCK, FP8_BLOCK],
        }
        values["expert_dtype"] = "fp4"
    config = read_config(values, "the tiny configuration")
    if release and (config.hidden_size % FP4_GROUP or config.experts.inner % FP4_GROUP):
        raise ValueError(
            f"FP4 experts need a hidden_size and a moe_intermediate_size that are multiples of {FP4_GROUP}"
        )
    tokenizer = tokenizer_json(config.vocab_size)
    random = np.random.default_rng(seed)
    shapes = tensor_shapes(config) | _draft_shapes(tensor_shapes(config), config.hidden_size, config.num_mtp)
    stored: dict[str, Stored] = {}
    for name, shape in shapes.items():
        stored.update(_stored(name, _values(name, shape, random, config.experts.count), release))
    # Nothing is written before everything is there: a shape that cannot be leaves no folder behind.
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "model.safetensors", stored)
    (folder / "config.json").write_text(json.dumps(values, indent=2) + "\n")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config(), ensure_ascii=False, indent=2) + "\n")
    generation = {"do_sample": True, "temperature": 1.0, "top_p": 1.0, "bos_token_id": 0, "eos_token_id": 1}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")


def _draft_shapes(shapes: dict[str, tuple[int, ...]], hidden: int, count: int) -> dict[str, tuple[int, ...]]:
    """Draft blocks: a window-only block that routes by score, two projections, their norms, an end of their own."""
    experts = shapes["layers.0.ffn.gate.weight"][0]
    block = {
        name.removeprefix("layers.0."): shape
        for name, shape in shapes.items()
        if name.startswith("layers.0.") and "tid2eid" not in name and "compressor" not in name and "indexer" not in name
    }
    block["ffn.gate.bias"] = (experts,)
    for name in ("e_proj", "h_proj"):
        block[f"{name}.weight"] = (hidden, hidden)
    for name in ("enorm", "hnorm", "norm"):
        block[f"{name}.weight"] = (hidden,)
    block.update({name: shapes[name] for name in ("hc_head_fn", "hc_head_base", "hc_head_scale")})
    return {f"mtp.{index}.{name}": shape for index in range(count) for name, shape in block.items()}


def _values(name: str, shape: tuple[int, ...], random: np.random.Generator, experts: int) -> NDArray[Any]:
    """Random numbers of a size that keeps a network of this kind alive."""
    if name.endswith("tid2eid"):
        ranks = random.random((shape[0], experts)).argsort(axis=1)
        return ranks[:, : shape[1]].astype(np.int64)
    centre, spread = _size(name, shape)
    return np.float32(centre) + np.float32(spread) * random.standard_normal(shape, np.float32)


def _size(name: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """Mean and deviation of a tensor's numbers."""
    for end, size in _SIZES.items():
        if name.endswith(end):
            return size
    if len(shape) == 1:
        return 1.0, 0.2
    return 0.0, 1.0 if name == "embed.weight" else shape[1] ** -0.5


def _stored(name: str, values: NDArray[Any], release: bool) -> Iterator[tuple[str, Stored]]:
    """A tensor as it lies in the file, with its scales where it has some."""
    if values.dtype == np.int64:
        yield name, ("I64", values)
    elif not name.endswith(".weight"):
        yield name, ("F32", values)
    elif not release or len(values.shape) == 1 or _kept_bf16(name):
        yield name, ("BF16", to_bf16(values))
    elif ".experts." in name:
        yield from _fp4(name, values)
    else:
        yield from _fp8(name, values)


def _kept_bf16(name: str) -> bool:
    return any(part in name for part in PLAIN_BF16) and not name.endswith("attn.wkv.weight")


def to_bf16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Bits of the nearest bfloat16, ties to even; finite input."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def _fp8(name: str, values: NDArray[np.float32]) -> Iterator[tuple[str, Stored]]:
    rows, columns = values.shape
    scales = np.empty((-(-rows // FP8_BLOCK), -(-columns // FP8_BLOCK)), np.float32)
    codes = np.empty(values.shape, np.uint8)
    for i in range(scales.shape[0]):
        for j in range(scales.shape[1]):
            block = slice(i * FP8_BLOCK, (i + 1) * FP8_BLOCK), slice(j * FP8_BLOCK, (j + 1) * FP8_BLOCK)
            scales[i, j] = power_of_two_scale(np.abs(values[block]).max(), FP8_MAX, 1e-4)
            codes[block] = to_e4m3(values[block] / scales[i, j])
    yield name, ("F8_E4M3", codes)
    yield name.removesuffix("weight") + "scale", ("F8_E8M0", to_e8m0(scales))


def _fp4(name: str, values: NDArray[np.float32]) -> Iterator[tuple[str, Stored]]:
    groups = values.reshape(values.shape[0], -1, FP4_GROUP)
    scales = power_of_two_scale(np.abs(groups).max(-1), 6.0, 6 * 2.0**-126)
    magnitudes = np.abs(groups / scales[..., None])
    codes = np.searchsorted(np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], np.float32), magnitudes).astype(np.uint8)
    codes |= np.where(np.signbit(groups), np.uint8(8), np.uint8(0))
    codes = codes.reshape(values.shape)
    yield name, ("I8", codes[:, 0::2] | codes[:, 1::2] << 4)
    yield name.removesuffix("weight") + "scale", ("F8_E8M0", to_e8m0(scales))


def write_safetensors(path: Path, tensors: dict[str, Stored]) -> None:
    """The format's own layout: length of the header, the header as JSON, the data in its order."""
    header, position = {}, 0
    for name, (kind, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(data.shape), "data_offsets": [position, position + data.nbytes]}
        position += data.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, data in tensors.values():
            file.write(np.ascontiguousarray(data).tobytes())
