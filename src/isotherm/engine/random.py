"""Random numbers that depend on nothing but (seed, choice, token index)."""

from __future__ import annotations

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def _mix(value: int) -> int:
    """The finaliser of splitmix64: every input bit reaches every output bit."""
    value &= _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def stream_key(seed: int, choice: int) -> int:
    """A 64-bit key for one sequence. Any integer is a seed; choices of one seed are unrelated."""
    return _mix(_mix(seed + _GOLDEN) + (choice + 1) * _GOLDEN)


def uniform(key: int, index: int) -> float:
    """The ``index``-th number of a stream, in [0, 1) with 53 random bits."""
    return (_mix(key + (index + 1) * _GOLDEN) >> 11) * 2.0**-53
