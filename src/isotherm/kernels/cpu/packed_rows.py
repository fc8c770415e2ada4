"""Rows of the cache as bfloat16 vectors for the matrix unit, two rows at a time, straight from their pages.

A vector holds 32 numbers of a row. Of a packed group of 64 codes the first vector has the even ones and the second the
odd ones: shifts alone part the bytes, and a sum over a row may be taken in any order. Each pair of rows is written
twice. *Plain*: a row's vectors side by side, which is how the unit wants rows whose products with queries it sums.
*Woven*: the numbers of both rows side by side, which is how it wants rows that it sums over; 0-3, 8-11, 16-19 and 24-27
of a vector come first, the others behind them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from isotherm.base.latent_rows import GROUP
from isotherm.kernels.cpu.compiled import by_types, inlined, intrinsic
from isotherm.kernels.cpu.latent_rows import packed_place
from isotherm.kernels.cpu.vector import LANES, element, prefetch

_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
WORDS = ir.VectorType(_I16, 2 * LANES)
_HALF, _BYTES = ir.VectorType(_I16, LANES), ir.VectorType(_I8, 4 * LANES)

_FIRST = [8 * lane + word + 2 * LANES * row for lane in range(4) for word in range(4) for row in range(2)]
_SECOND = [place + 4 for place in _FIRST]
WOVEN_BACK = [4 * (place // 8) + place % 4 + (LANES if place % 8 >= 4 else 0) for place in range(2 * LANES)]
"""Where the numbers of a vector are when it is woven."""

_SMALL = [0, -256, -128, -64, 0, 32, 64, 96]
"""Codes m below 8 stand for m / 512: what their bfloat16 bits are beyond those of 8 / 512, the first normal number."""


def _words(value: int) -> ir.Constant:
    return ir.Constant(WORDS, [value] * (2 * LANES))


def shuffle(builder: Any, a: Any, b: Any, order: list[int]) -> Any:
    """Emit the elements of two vectors in an order."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, len(order)), order))


def _read(builder: Any, address: Any, kind: Any) -> Any:
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=1)


def _keep(builder: Any, x: Any, y: Any, plain: Any, apart: Any, woven: Any) -> None:
    """A vector of two rows; ``plain`` and ``woven`` are the first row's places, its neighbour's is ``apart`` on."""
    for value, base, offset in (
        (x, plain, ir.Constant(_I64, 0)),
        (y, plain, apart),
        (shuffle(builder, x, y, _FIRST), woven, ir.Constant(_I64, 0)),
        (shuffle(builder, x, y, _SECOND), woven, ir.Constant(_I64, 2 * LANES)),
    ):
        builder.store(value, builder.bitcast(builder.gep(base, [offset]), WORDS.as_pointer()), align=64)


def _number(builder: Any, moved: Any, base: Any, small: bool) -> Any:
    """bfloat16 of the code in the high byte of each word; ``base``: its scale's exponent less e4m3's bias, in place.

    ``small``: there may be codes below 8, which have no exponent of their own.
    """
    shifted = builder.and_(builder.ashr(moved, _words(4)), _words(0x87F0 - 0x10000))
    normal = builder.add(shifted, base)
    if not small:
        return normal
    magnitude = builder.and_(builder.lshr(moved, _words(8)), _words(0x7F))
    kind = ir.FunctionType(WORDS, [WORDS, WORDS])
    look = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.permvar.hi.512")
    found = builder.add(base, builder.call(look, [ir.Constant(WORDS, _SMALL * 4), magnitude]))
    found = builder.select(builder.icmp_unsigned("==", magnitude, _words(0)), _words(0), found)
    found = builder.or_(found, builder.and_(moved, _words(-0x8000)))
    return builder.select(builder.icmp_unsigned("<", magnitude, _words(8)), found, normal)


def _small_ones(builder: Any, words: Any) -> Any:
    """A bit for each code without an exponent."""
    exponents = builder.and_(builder.bitcast(words, _BYTES), ir.Constant(_BYTES, [0x78] * (4 * LANES)))
    return builder.bitcast(builder.icmp_unsigned("==", exponents, ir.Constant(_BYTES, [0] * (4 * LANES))), _I64)


def _base(builder: Any, address: Any) -> Any:
    exponent = builder.sub(builder.zext(_read(builder, address, _I8), _I16), ir.Constant(_I16, 7))
    undefined = ir.Constant(WORDS, ir.Undefined)
    single = builder.insert_element(undefined, builder.shl(exponent, ir.Constant(_I16, 7)), ir.Constant(_I32, 0))
    return shuffle(builder, single, undefined, [0] * (2 * LANES))


@intrinsic
def _unpack_codes(
    typing_context: Any,
    x: Any,
    y: Any,
    x_scale: Any,
    y_scale: Any,
    plain: Any,
    at: Any,
    apart: Any,
    woven: Any,
    to: Any,
) -> Any:
    """A group of 64 codes of two rows, all four by address, as two vectors each."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = [_read(builder, address, WORDS) for address in args[:2]]
        bases = [_base(builder, address) for address in args[2:4]]
        plain_at = element(context, builder, signature.args[4], args[4], args[5])
        woven_at = element(context, builder, signature.args[7], args[7], args[8])

        def emit(small: bool) -> None:
            for odd in range(2):
                moved = rows if odd else [builder.shl(row, _words(8)) for row in rows]
                x, y = (_number(builder, word, base, small) for word, base in zip(moved, bases, strict=True))
                plain = builder.gep(plain_at, [ir.Constant(_I64, 2 * LANES * odd)])
                woven = builder.gep(woven_at, [ir.Constant(_I64, 4 * LANES * odd)])
                _keep(builder, x, y, plain, args[6], woven)

        some = builder.or_(*(_small_ones(builder, row) for row in rows))
        # One in a hundred groups has such codes: the others are spared the look-up.
        with builder.if_else(builder.icmp_unsigned("!=", some, ir.Constant(_I64, 0)), likely=False) as (rare, usual):
            with rare:
                emit(True)
            with usual:
                emit(False)
        return context.get_dummy_value()

    i = types.int64
    return types.void(i, i, i, i, plain, i, i, woven, i), generate


def _make_words(count: int) -> Any:
    """Of two rows by address ``count`` bfloat16 as one vector each, zeros behind them."""

    @intrinsic
    def unpack(typing_context: Any, x: Any, y: Any, plain: Any, at: Any, apart: Any, woven: Any, to: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            rows = [_read(builder, address, WORDS if count > LANES else _HALF) for address in args[:2]]
            if count == LANES:
                zeros = ir.Constant(_HALF, [0] * LANES)
                rows = [shuffle(builder, row, zeros, list(range(2 * LANES))) for row in rows]
            plain_at = element(context, builder, signature.args[2], args[2], args[3])
            woven_at = element(context, builder, signature.args[5], args[5], args[6])
            _keep(builder, rows[0], rows[1], plain_at, args[4], woven_at)
            return context.get_dummy_value()

        i = types.int64
        return types.void(i, i, plain, i, i, woven, i), generate

    return unpack


_unpack_whole, _unpack_half = _make_words(2 * LANES), _make_words(LANES)


@inlined
def _unpack_words(x: int, y: int, left: int, plain: Any, at: int, apart: int, woven: Any, to: int) -> None:
    """Up to 64 bfloat16 of two rows, of which ``left`` are left, a multiple of 16."""
    if left >= 2 * LANES:
        _unpack_whole(x, y, plain, at, apart, woven, to)
    else:
        _unpack_half(x, y, plain, at, apart, woven, to)
    if left >= 4 * LANES:
        _unpack_whole(x + 4 * LANES, y + 4 * LANES, plain, at + 2 * LANES, apart, woven, to + 4 * LANES)
    elif left > 2 * LANES:
        _unpack_half(x + 4 * LANES, y + 4 * LANES, plain, at + 2 * LANES, apart, woven, to + 4 * LANES)


@by_types(inline=True)
def address_of(data: Any, base: Any, page: Any, row: Any, width: Any, rotated: Any) -> Any:
    """Addresses of a row's record and of its scales; ``base`` is that of data."""
    if data.dtype == types.uint8:

        def packed(data: Any, base: Any, page: Any, row: Any, width: Any, rotated: Any) -> tuple[int, int]:
            record, scales = packed_place(data, row, width, rotated)
            at = base + page * data.shape[1]
            return at + record, at + scales

        return packed

    def words(data: Any, base: Any, page: Any, row: Any, width: Any, rotated: Any) -> tuple[int, int]:
        at = base + (page * data.shape[1] + row) * width * 2
        return at, at

    return words


@by_types(inline=True)
def unpack_group(
    data: Any, x: Any, y: Any, x_scale: Any, y_scale: Any, width: Any, rotated: Any, group: Any, plain: Any, at: Any,
    apart: Any, woven: Any, to: Any,
) -> Any:  # fmt: skip
    """Numbers 64 ``group`` and up of two rows, by the addresses of their records and scales, as two vectors each.

    They go to plain[at :] and plain[at + apart :], and to woven[to :]; those start on a cache line.
    """
    if data.dtype == types.uint8:

        def packed(
            data: Any, x: Any, y: Any, x_scale: Any, y_scale: Any, width: Any, rotated: Any, group: Any, plain: Any,
            at: Any, apart: Any, woven: Any, to: Any,
        ) -> None:  # fmt: skip
            first, codes = group * GROUP, width - rotated
            if first < codes:
                _unpack_codes(x + first, y + first, x_scale + group, y_scale + group, plain, at, apart, woven, to)
            else:
                skip = 2 * first - codes
                _unpack_words(x + skip, y + skip, width - first, plain, at, apart, woven, to)

        return packed

    def words(
        data: Any, x: Any, y: Any, x_scale: Any, y_scale: Any, width: Any, rotated: Any, group: Any, plain: Any,
        at: Any, apart: Any, woven: Any, to: Any,
    ) -> None:  # fmt: skip
        skip = 2 * GROUP * group
        _unpack_words(x + skip, y + skip, width - GROUP * group, plain, at, apart, woven, to)

    return words


@intrinsic
def ask_at(typing_context: Any, address: Any) -> Any:
    """Ask for the line at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        prefetch(builder, builder.inttoptr(args[0], _I8.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64), generate
