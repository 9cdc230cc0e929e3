"""Normals of a path's own stream."""

from __future__ import annotations

import numpy as np
import scipy.stats

from tplimits.numeric.sde import normals

COUNT = 400_000


def sample(seed=0, count=COUNT):
    out = np.empty(count)
    normals.fill(normals.streams(seed, 1)[0], out)
    return out


def test_they_are_normal():
    found = sample()
    assert scipy.stats.kstest(found, "norm").pvalue > 1e-4
    for power, (moment, deviation) in {1: (0, 1), 2: (1, 2**0.5), 3: (0, 15**0.5), 4: (3, 96**0.5)}.items():
        assert abs((found**power).mean() - moment) < 4 * deviation / COUNT**0.5
    assert abs((np.abs(found) > 3.7).sum() / (2 * COUNT * scipy.stats.norm.sf(3.7)) - 1) < 0.5  # the tail layer
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 4 / COUNT**0.5


def test_streams_of_paths_differ_and_do_not_depend_on_their_number():
    few, many = normals.streams(3, 4), normals.streams(3, 1000)
    assert (many[:4] == few).all() and len({tuple(s) for s in many.tolist()}) == 1000
    assert (normals.streams(4, 4) != few).all()


def test_a_coarse_draw_is_the_sum_of_two_fine_ones():
    coarse, fine, spare = np.empty(6), np.empty((2, 6)), np.empty(6)
    state = normals.streams(1, 1)[0]
    normals.draw(state.copy(), 2, coarse, spare)
    for row in fine:
        normals.draw(state, 1, row, spare)
    assert np.allclose(coarse, fine.sum(axis=0) / 2**0.5, rtol=1e-15, atol=1e-15)
