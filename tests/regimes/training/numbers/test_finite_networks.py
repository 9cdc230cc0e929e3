"""Feature-learning limits beside multilayer perceptrons of width 2048 that are trained with their true matrices."""

import functools

import numpy as np
import pytest
import trained_networks as finite

import tplimits as tp
from tplimits.numbers.matrices import InitialOperator
from tplimits.regimes.training.numbers.parameters import MatrixParameter
from tplimits.regimes.training.numbers.updates import BlockUpdate

pytestmark = pytest.mark.sampling

WIDTH, NETWORKS, STEPS, BATCH = 2048, 6, 3, 4
_DATA = np.random.default_rng(5)
X, Y = _DATA.standard_normal((6, 4)), _DATA.standard_normal(6)
Y[BATCH:] = np.nan
ERROR = tp.squared_error(Y, train=range(BATCH))


@tp.network
def two(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))


@tp.network
def three(ξ: tp.Input["d"], U: tp.Vector["d"], W1: tp.Matrix, W2: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W2 @ tp.tanh(W1 @ tp.tanh(tp.sum(U * ξ, over="d"))))


@tp.network
def tied(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d"))))


ADAM = tp.Adam(eps=0.05), finite.Adam(0.05), 0.05
#: network, optimizers of the limit and of the oracle, learning rate, decay, and what else the oracle has to know
CASES = {
    "SGD, L=2": (two, tp.SGD(), finite.SGD(), 0.5, 0, {}),
    "momentum, L=3": (three, tp.SGD(momentum=0.5), finite.SGD(0.5), 0.3, 0, {"depth": 3}),
    "Adam, L=2": (two, *ADAM, 0, {}),
    "Adam, tied": (tied, *ADAM, 0, {"depth": 3, "tied": True}),
}


@functools.cache
def trained(case):
    """Mean and standard error of finite networks."""
    _, _, optimizer, lr, _, more = CASES[case]
    seeds = (np.random.default_rng([7, k]) for k in range(NETWORKS))
    return finite.mean_and_error(
        [finite.train(X, Y, WIDTH, optimizer, lr, STEPS, rng, batch=BATCH, **more) for rng in seeds]
    )


def limit(case, optimizer=None):
    network, own, _, lr, decay, _ = CASES[case]
    derived = tp.derive(network, tp.MaximalUpdate(optimizer or own, weight_decay=decay))
    return derived.evaluate(X, error=ERROR, lr=lr, steps=STEPS, particles=4096, replicates=8)


def rms_z(case, run):
    """Root mean square over inputs and times of (finite − limit)/standard error; at the start both are 0."""
    mean, error = trained(case)
    z = (mean - run.f) / np.hypot(error, run.stderr)
    return float(np.sqrt((z[1:] ** 2).mean()))


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_finite_networks_agree_within_their_standard_errors(case):
    run = limit(case)
    assert np.abs(run.f[0]).max() < 1e-12
    assert rms_z(case, run) <= 1.5


@pytest.mark.long
def test_adam_without_bias_correction_is_rejected():
    β1, β2, ε = 0.9, 0.999, 0.05
    wrong = tp.Entrywise(
        lambda m, v: m / tp.sqrt(v + ε**2),
        states={"m": lambda g, m: β1 * m + (1 - β1) * g, "v": lambda g, v: β2 * v + (1 - β2) * g**2},
    )
    assert rms_z("Adam, L=2", limit("Adam, L=2", wrong)) > 5


@pytest.mark.long
def test_images_without_dot_kets_are_rejected(monkeypatch):
    monkeypatch.setattr(
        InitialOperator, "_images", lambda self, q, transposed, target: target.fresh(len(q)) * self._std
    )
    assert rms_z("SGD, L=2", limit("SGD, L=2")) > 5


class _BarsOfPairs:
    """Q of each use of a matrix by itself: the rows of a gradient are those of one use, then those of the other."""

    def __init__(self, *arguments):
        self.parts = BlockUpdate(*arguments), BlockUpdate(*arguments)

    def step(self, t, left, right, lr, decay):
        half = len(left) // 2
        for part, rows in zip(self.parts, (slice(half), slice(half, None)), strict=True):
            part.step(t, left[rows], right[rows], lr, decay)

    def apply(self, x, transposed):
        return sum(part.apply(x, transposed) for part in self.parts)


@pytest.mark.long
def test_bars_of_pairs_are_rejected_for_a_tied_matrix(monkeypatch):
    def update(self):
        return _BarsOfPairs(self._rows.size, self._columns.size, self._blocks, self.optimizer)

    monkeypatch.setattr(MatrixParameter, "_update", update)
    assert rms_z("Adam, tied", limit("Adam, tied")) > 5
