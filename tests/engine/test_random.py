"""Numbers that depend on seed, choice and index only, and look random in each of them."""

import numpy as np

from isotherm.engine.random import stream_key, uniform


def test_known_values():
    """Answers with a seed must survive upgrades: these values are a promise."""
    key = stream_key(7, 0)
    assert [round(uniform(key, index), 12) for index in range(3)] == [0.609394524568, 0.409179498605, 0.996737180624]


def test_range_and_uniformity():
    values = np.array(
        [uniform(stream_key(seed, choice), index) for seed in range(20) for choice in range(5) for index in range(200)]
    )
    assert values.min() >= 0
    assert values.max() < 1
    counts, _ = np.histogram(values, bins=50, range=(0, 1))
    assert ((counts - 400) ** 2 / 400).sum() < 49 + 5 * np.sqrt(98)


def test_neighbours_are_unrelated():
    """Next index, next choice, next seed: correlations within the noise of 20,000 pairs."""
    base = np.array([uniform(stream_key(seed, 0), 0) for seed in range(20_000)])
    for other in (
        [uniform(stream_key(seed, 0), 1) for seed in range(20_000)],
        [uniform(stream_key(seed, 1), 0) for seed in range(20_000)],
        [uniform(stream_key(seed + 1, 0), 0) for seed in range(20_000)],
    ):
        assert abs(np.corrcoef(base, np.array(other))[0, 1]) < 0.035


def test_any_integer_is_a_seed():
    keys = {stream_key(seed, 0) for seed in (0, 1, -1, 2**63, -(2**63), 2**64 + 1, 10**30)}
    assert len(keys) == 5, "only seeds that agree in their lowest 64 bits share a stream, two pairs here"
