"""Linear layers for few rows: the cost is reading the weights, which every thread does once for all rows."""

from __future__ import annotations

from typing import Any

from isotherm.kernels.cpu.arranged import store_arranged
from isotherm.kernels.cpu.compiled import kernel
from isotherm.kernels.cpu.pair_tile import pair_tile
from isotherm.kernels.cpu.quant_tile import GROUP, LANES, make_tile, quantise_group
from isotherm.kernels.cpu.vector import add, load, store

_tile_4, _tile_8 = make_tile(4), make_tile(8)


@kernel
def prepare_row(bits: int, x: Any, at: int, size: int, quants: Any, factors: Any, narrow: Any, row: int) -> None:
    """Turn float32 or bfloat16 x[at : at + size] into what weights of ``bits`` multiply.

    For 16 bits that is row ``row`` of narrow (bfloat16 [rows, size], inputs in the order of ``arranged``); else of
    quants (int8 [rows, size]) and factors (float32 [rows, size / 16]).
    """
    if bits == 16:
        for column in range(0, size, LANES):
            store_arranged(narrow, row * size + column, load(x, at + column))
    else:
        for group in range(size // GROUP):
            base = row * size + group * GROUP
            quantise_group(x, at + group * GROUP, quants, base, factors, base // 16)


@kernel
def share_tiles(
    thread: int, threads: int, layer: Any, weights: Any, scales: Any, biases: Any, quants: Any, factors: Any,
    narrow: Any, rows: int, inputs: int, out: Any, width: int,
) -> None:  # fmt: skip
    """One thread's run of output tiles of a layer with ``width`` outputs, for rows that ``prepare_row`` made.

    ``layer`` is (bits, first byte in weights, first scale, first bias or -1); out float32 [rows, width].
    """
    bits, w_at, s_at, b_at = layer[0], layer[1], layer[2], layer[3]
    tiles, size = width // LANES, inputs * LANES * bits // 8
    for tile in range(tiles * thread // threads, tiles * (thread + 1) // threads):
        w, s, o = w_at + tile * size, s_at + tile * inputs, tile * LANES
        if bits == 4:
            _tile_4(weights, w, scales, s, quants, factors, rows, inputs, out, o, width)
        elif bits == 8:
            _tile_8(weights, w, scales, s, quants, factors, rows, inputs, out, o, width)
        else:
            pair_tile(weights, w, narrow, rows, inputs, out, o, width)
        if b_at >= 0:
            for row in range(rows):
                store(out, row * width + o, add(load(out, row * width + o), load(biases, b_at + o)))
