"""Normals of a path's own stream."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import scipy.stats

from tplimits.regimes.depth.numbers import normals

COUNT = 400_000


def state_of(stream):
    state = np.empty(normals.SIZE, np.uint64)
    normals.start(stream, state)
    return state


def sample(seed=0, count=COUNT):
    out = np.empty(count)
    normals.fill(state_of(normals.streams(seed, 1)[0]), out)
    return out


@functools.cache
def many():
    """Ten samples."""
    return np.concatenate([sample(seed) for seed in range(10)])


def test_they_are_normal():
    found = sample()
    assert scipy.stats.kstest(found, "norm").pvalue > 1e-4
    for power, (moment, deviation) in {1: (0, 1), 2: (1, 2**0.5), 3: (0, 15**0.5), 4: (3, 96**0.5)}.items():
        assert abs((found**power).mean() - moment) < 4 * deviation / COUNT**0.5
    assert abs((np.abs(found) > 3.7).sum() / (2 * COUNT * scipy.stats.norm.sf(3.7)) - 1) < 0.5  # the tail layer
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 4 / COUNT**0.5


@pytest.mark.parametrize("beyond", [0.5, 1.0, 2.0, 3.0, 3.7, 4.0388, 4.3, 4.7])
def test_both_tails_have_their_probability(beyond):
    """Inside, where wedges are settled, about the edge of the lowest layer, and beyond it."""
    found, probability = many(), scipy.stats.norm.sf(beyond)
    for count in ((found > beyond).sum(), (found < -beyond).sum()):
        assert 1e-5 < scipy.stats.binom.cdf(count, len(found), probability) < 1 - 1e-5


def test_the_law_is_normal_in_fine_cells():
    """Ten million words and a cell a thousand: an error of a wedge, one word in 300, would show."""
    count, _ = np.histogram(scipy.stats.norm.cdf(many()), bins=1000, range=(0, 1))
    assert scipy.stats.chisquare(count).pvalue > 1e-4


def test_layers_of_the_ziggurat_have_the_same_area():
    """The density above the highest edge closes the stack: its last box ends at the density at zero."""
    widths, inside, densities = normals._tables()
    edges = inside * widths  # where a layer ends that is wholly under the density: at that of the one above
    widths *= 2.0**52
    area = widths[0] * densities[-1]
    assert math.isclose(area, widths[-1] * densities[-1] + math.sqrt(math.pi / 2) * math.erfc(widths[-1] / 2**0.5))
    assert np.allclose(widths[1:] * (densities[:-1] - densities[1:]), area, rtol=1e-9, atol=0)
    assert len(widths) == 1024 and densities[0] == 1
    assert np.allclose(edges, [widths[-1], 0, *widths[1:-1]], rtol=0, atol=1e-14)


def test_neighbours_and_lanes_are_uncorrelated():
    """Lanes are generators of their own: no distance between numbers, and no square, tells of another."""
    found = sample(7)
    for distance in (*range(1, 3 * normals.LANES), 4 * normals.LANES + 1):
        for x in (found, found**2 - 1):
            product = x[distance:] * x[:-distance]
            assert abs(product.mean()) < 5 * product.std() / len(product) ** 0.5
    assert abs(np.array([sample(seed, 1)[0] for seed in range(2000)]).mean()) < 4 / 2000**0.5


def test_a_generator_is_xoshiro256plusplus():
    """The words of one lane against the recurrence in whole numbers."""
    state = state_of(normals.streams(5, 1)[0])
    a, b, c, d = (int(w) for w in state[3 : 4 * normals.LANES : normals.LANES])
    full = 2**64 - 1

    def rotated(x, k):
        return (x << k | x >> (64 - k)) & full

    for _ in range(20):
        wanted = (rotated((a + d) & full, 23) + a) & full
        normals._advance(state)
        assert int(state[4 * normals.LANES + 3]) == wanted
        t = b << 17 & full
        c ^= a
        d ^= b
        b ^= c
        a ^= d
        c ^= t
        d = rotated(d, 45)
    assert [int(w) for w in state[3 : 4 * normals.LANES : normals.LANES]] == [a, b, c, d]


def test_streams_of_paths_differ_and_do_not_depend_on_their_number():
    few, more = normals.streams(3, 4), normals.streams(3, 1000)
    assert (more[:4] == few).all() and len({tuple(s) for s in more.tolist()}) == 1000
    assert (normals.streams(4, 4) != few).all()


def test_a_coarse_draw_is_the_sum_of_two_fine_ones():
    coarse, fine, spare = np.empty(6), np.empty((2, 6)), np.empty(6)
    state = state_of(normals.streams(1, 1)[0])
    normals.draw(state.copy(), 2, coarse, spare)
    for row in fine:
        normals.draw(state, 1, row, spare)
    assert np.allclose(coarse, fine.sum(axis=0) / 2**0.5, rtol=1e-15, atol=1e-15)


def test_uniform_numbers_are_above_zero_and_reach_one():
    """Words 0 and 2^64 − 1 of the recurrence: logarithms of both are finite."""
    for first, last, wanted in ((0, 0, 2.0**-53), (2**64 - 1, 1, 1.0)):
        assert normals._uniform(np.array([first, 0, 0, last], np.uint64)) == wanted
