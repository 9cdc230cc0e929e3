"""Errors of runs whose means few particles make: calibrated over seeds, against many particles."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.training.numbers.feature_learning import widening

_DATA = np.random.default_rng(5)
X, ERROR = _DATA.standard_normal((4, 3)), tp.squared_error(_DATA.standard_normal(4))
ADAM = tp.Adam(eps=0.05)


def runs(function, seeds, **more):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * function(tp.sum(U * ξ, over="d"))

    limit = tp.derive(net, tp.MaximalUpdate(ADAM))
    return [limit.evaluate(X, error=ERROR, lr=0.01, steps=1, seed=seed, **more) for seed in seeds]


def spread(run):
    """The error as the replicates say."""
    return run.replicates.std(axis=0, ddof=1)[1] / len(run.replicates) ** 0.5


def test_errors_hold_where_few_particles_make_them():
    """|z| > 2 in 9 % of cases by Student's law of eight replicates, of x⁵ in 25 % by their spread.

    The deviation over 30 seeds and four outputs, which go together, is 5 % at most.
    """
    (true,) = runs(lambda x: x**5, [10**6], particles=8192, replicates=12)
    found = runs(lambda x: x**5, range(30), particles=512, block=128)
    off = np.array([(run.f - true.f)[1] for run in found])
    wide, narrow = (
        np.hypot([error(run) for run in found], true.stderr[1]) for error in (lambda r: r.stderr[1], spread)
    )
    assert (abs(off) > 2 * wide).mean() < 0.17 < (abs(off) > 2 * narrow).mean()


def test_where_many_make_them_they_are_those_of_the_spread():
    (run,) = runs(tp.tanh, [0], particles=1024)
    assert 1 < (run.stderr[1] / spread(run)).max() < 1.01


def test_what_was_seen_before_goes_on():
    shares = np.array([[0.0, 0.5, 0.1], [0.0, 0.1, 0.3]])
    assert widening(shares) == pytest.approx(np.sqrt(1 + np.array([0.0, 0.3, 0.4])))
