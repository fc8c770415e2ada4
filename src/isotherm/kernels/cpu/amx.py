"""The matrix unit of recent Intel CPUs (AMX) as numba calls: eight tile registers of 16 rows by 64 bytes.

A product adds, for 16 rows of A and 16 columns of B, 32 terms each: A's tile is [16, 32] bfloat16, B's is
[16, 16, 2] (pairs of neighbours along the summed axis side by side), the sums are float32 [16, 16]. A thread calls
``begin`` before its first tile and ``end`` after its last. Offsets count elements and strides count bytes; nothing is
bounds-checked. A row's result depends on that row alone, whatever the fifteen others hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import torch
from llvmlite import ir
from numba import types
from numba.core import cgutils

from isotherm.kernels.cpu.compiled import intrinsic
from isotherm.kernels.cpu.vector import element

ROWS = 16
"""Rows of a tile, and columns of a tile of float32 sums."""
DEPTH = 32
"""Terms that one product sums."""

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_VOID = ir.VoidType()
_BYTES = _I8.as_pointer()
_SHAPE = [1, 0, *[0] * 14, *([64, 0] * 8), *[0] * 16, *[ROWS] * 8, *[0] * 8]
"""The configuration that the CPU loads: palette 1, bytes a row (16 bits each), rows (8 bits each) of tiles 0 to 7."""


def has_amx() -> bool:
    """Whether this CPU has the unit for bfloat16 and the kernel lets this process use it (asks for it)."""
    features = llvm.get_host_cpu_features()
    return bool(features.get("amx-bf16") and features.get("avx512bf16")) and torch.cpu._init_amx()


def emit(builder: Any, name: str, *args: Any) -> None:
    """Emit one of the instructions, by the name that LLVM gives it."""
    kind = ir.FunctionType(_VOID, [arg.type for arg in args])
    builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}"), args)


def _tile(number: Any) -> ir.Constant:
    return ir.Constant(_I8, number.literal_value)


@intrinsic
def begin(typing_context: Any) -> Any:
    """Configure the tiles of the calling thread."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        shape = ir.Constant(ir.ArrayType(_I8, 64), _SHAPE)
        emit(builder, "ldtilecfg", builder.bitcast(cgutils.alloca_once_value(builder, shape), _BYTES))
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def end(typing_context: Any) -> Any:
    """Give the tiles back, so that switching threads does not save them."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit(builder, "tilerelease")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic(prefer_literal=True)
def zero(typing_context: Any, tile: Any) -> Any:
    """Clear a tile; its number is a constant in the source, as for all of these."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit(builder, "tilezero", _tile(tile))
        return context.get_dummy_value()

    return types.void(tile), generate


def _move(instruction: str) -> Callable[..., None]:
    """Called as ``move(tile, array, offset, stride)``: sixteen runs of 64 bytes from element ``offset`` on."""

    @intrinsic(prefer_literal=True)
    def move(typing_context: Any, tile: Any, array: Any, offset: Any, stride: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            start = element(context, builder, array, args[1], args[2])
            emit(builder, instruction, _tile(tile), builder.bitcast(start, _BYTES), args[3])
            return context.get_dummy_value()

        return types.void(tile, array, types.int64, types.int64), generate

    return move


load, store = _move("tileloadd64"), _move("tilestored64")
"""Fill a tile from an array, and write it to one; see ``_move``."""
load_passing = _move("tileloaddt164")
"""``load`` of what streams past: it does not push what is used again out of the first cache."""


@intrinsic(prefer_literal=True)
def multiply(typing_context: Any, sums: Any, a: Any, b: Any) -> Any:
    """sums += a . b over bfloat16 pairs."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit(builder, "tdpbf16ps", _tile(sums), _tile(a), _tile(b))
        return context.get_dummy_value()

    return types.void(sums, a, b), generate
