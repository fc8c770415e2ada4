"""In which forms a network's weights are held, so that every kind of forward has its fast path on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from isotherm.kernels import dispatch
from isotherm.kernels.cpu import amx, matrix_stack
from isotherm.kernels.cpu.tiled_weight import fits
from isotherm.kernels.cpu.vector import has_pair_products
from isotherm.kernels.dispatch import Ops
from isotherm.model import linear, quantised
from isotherm.model.config import LlamaConfig
from isotherm.model.tensors import TensorSource

Names = tuple[str, ...]
"""Linear layers that read the same input and are stacked into one, without ``.weight``."""

FEW_QUANTISED, FEW_PAIRS = 64, 8
"""Rows from which oneDNN's dense products beat the vector form over quantised weights, and over bfloat16 pairs: below
it, memory is the limit."""

FEW_QUANTISED_UNIT, FEW_PAIRS_UNIT = 14, 3
"""The same for the matrix unit. It unfolds quantised weights in every step, which takes the time of a dozen rows."""


@dataclass(frozen=True, slots=True)
class Forms:
    """``stacked``: tiles that whole forwards run over (see ``model.stack``); ``dense``: op by op, for the rest.

    ``unit`` and ``few_rows`` are those of the stack; the head may use the unit if ``unit_head``. ``fixed_below`` makes
    dense products of fewer rows than that independent of their number. ``packed`` is oneDNN's layout.
    """

    stacked: bool
    dense: bool
    keep_quantised: bool
    tiled_head: bool
    packed: bool
    unit: bool
    unit_head: bool
    few_rows: int
    fixed_below: int | None


def linears(prefix: str) -> tuple[Names, Names, Names, Names]:
    """A decoder layer's linear layers, in the order of ``kernels.cpu.stack_weights``."""
    qkv = tuple(f"{prefix}self_attn.{name}_proj" for name in "qkv")
    gate_up = (prefix + "mlp.gate_proj", prefix + "mlp.up_proj")
    return qkv, (prefix + "self_attn.o_proj",), gate_up, (prefix + "mlp.down_proj",)


def choose(
    config: LlamaConfig,
    tensors: Mapping[str, TensorSource],
    layers: Sequence[tuple[Names, ...]],
    ops: Ops,
    dtype: torch.dtype,
    device: torch.device,
    *,
    keep_quantised: bool,
    deterministic: bool,
    max_decode_rows: int,
) -> Forms:
    """The forms for this network on this machine; see ``load_llama`` for the options."""
    narrow, on_cpu = dtype == torch.bfloat16, device.type == "cpu"
    keep_quantised = keep_quantised and on_cpu
    sources = [[tensors[name + ".weight"] for name in names] for layer in layers for names in layer]
    quantised_throughout = keep_quantised and all(quantised.keeps(each) for each in sources)
    tiles = all(fits(sum(source.shape[0] for source in each), each[0].shape[1]) for each in sources)
    compiled = on_cpu and ops is not dispatch.REFERENCE and tiles
    stacked = compiled and (quantised_throughout or (narrow and has_pair_products()))
    groups, size = config.num_kv_heads, config.head_dim
    sizes = (config.hidden_size, config.intermediate_size, config.num_heads, groups, size)
    unit = stacked and narrow and matrix_stack.fits(*sizes) and amx.has_amx()
    few_rows = _few_rows(quantised_throughout, unit)
    if deterministic:
        # One form for all decode steps. The unit costs little over pairs, and too much over quantised weights.
        few_rows = 0 if unit and not quantised_throughout else max(few_rows, max_decode_rows + 1)
    return Forms(
        stacked=stacked,
        dense=not unit,
        keep_quantised=keep_quantised,
        tiled_head=stacked and narrow and fits(config.vocab_size, config.hidden_size) and has_pair_products(),
        packed=narrow and on_cpu and linear.packing_works(),
        unit=unit,
        unit_head=unit and not (deterministic and few_rows),
        few_rows=few_rows,
        fixed_below=few_rows if deterministic and not stacked else None,
    )


def _few_rows(quantised_throughout: bool, unit: bool) -> int:
    if unit:
        return FEW_QUANTISED_UNIT if quantised_throughout else FEW_PAIRS_UNIT
    return FEW_QUANTISED if quantised_throughout else FEW_PAIRS
