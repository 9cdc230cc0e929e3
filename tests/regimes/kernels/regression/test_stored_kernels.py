"""Predictions from stored Gram matrices are those from data."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

RNG = np.random.default_rng(4)
X = RNG.standard_normal((30, 4))
TRAIN, TEST = np.arange(0, 30, 2), np.array([1, 3, 4, 29])
Y = np.sin(X[:, 0])


@tp.network
def erf_net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, *, γ=1):
    return v * tp.erf(W @ tp.erf(γ * tp.sum(U * ξ, over="d")))


@tp.network
def tokens(ξ: tp.Input["token", "d"], U: tp.Vector["d"], v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    return v * tp.relu(x + 0.5 * tp.mean(x.rename(token="other"), over="other"))


@tp.network
def with_mean(ξ: tp.Input["d"], U: tp.Vector["d"], s: tp.Scalar = 2):
    return tp.readout(tp.sum(U * ξ, over="d")) + s


LIMIT = tp.derive(erf_net, tp.Kernels())


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    place = tmp_path_factory.mktemp("stored") / "gram"
    LIMIT.evaluate(X, out=place)
    return tp.load_kernels(place)


def same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kernel", ["nngp", "ntk"])
def test_regression_and_evidence(stored, kernel):
    options = {"noise": 0.05, "kernel": kernel}
    same(stored.posterior(TRAIN, Y[TRAIN], TEST, **options), LIMIT.posterior(X[TRAIN], Y[TRAIN], X[TEST], **options))
    same(stored.posterior(TRAIN, Y[TRAIN], **options), LIMIT.posterior(X[TRAIN], Y[TRAIN], **options))
    found = stored.log_marginal_likelihood(TRAIN, Y[TRAIN], **options)
    assert found == pytest.approx(LIMIT.log_marginal_likelihood(X[TRAIN], Y[TRAIN], **options), rel=1e-12)
    later = stored.conditioned(TRAIN, Y[TRAIN], **options).at(TEST)
    same(later, LIMIT.posterior(X[TRAIN], Y[TRAIN], X[TEST], **options))


def test_training(stored):
    y = np.stack([Y, Y**2], axis=1)[TRAIN]
    for schedule in ({"time": [1.0, 30.0]}, {"steps": 7, "lr": 0.1, "momentum": 0.5}, {"noise": 0.1}):
        same(stored.train(TRAIN, y, TEST, **schedule), LIMIT.train(X[TRAIN], y, X[TEST], **schedule))
    rate = stored.max_learning_rate(TRAIN)
    assert rate == pytest.approx(LIMIT.max_learning_rate(X[TRAIN]), rel=1e-12)
    signs = tp.cross_entropy((Y > 0).astype(int)[TRAIN])
    options = {"outputs": 2, "steps": 9, "lr": rate / 2}
    wanted = LIMIT.descend(X[TRAIN], signs, **options).at(X[TEST])
    np.testing.assert_allclose(stored.descend(TRAIN, signs, **options).at(TEST), wanted, rtol=1e-10)


def test_masks_and_blocks(stored, monkeypatch):
    monkeypatch.setattr("tplimits.regimes.kernels.regression.blocks._READ", 4)
    mask = np.isin(np.arange(30), TRAIN)
    wanted = LIMIT.posterior(X[TRAIN], Y[TRAIN], X[TEST], noise=0.1)
    same(stored.posterior(mask, Y[mask], TEST, noise=0.1), wanted)
    same(stored.train(mask, Y[mask], list(TEST)), LIMIT.train(X[TRAIN], Y[TRAIN], X[TEST]))


def test_outputs_with_axes(tmp_path):
    limit, data = tp.derive(tokens, tp.Kernels()), RNG.standard_normal((6, 3, 2))
    y = RNG.standard_normal((4, 3))
    stored = limit.evaluate(data, out=tmp_path / "gram")
    same(stored.posterior([0, 1, 2, 3], y, [5, 4], noise=0.1), limit.posterior(data[:4], y, data[[5, 4]], noise=0.1))


def test_single_precision_is_solved_in_double_precision(tmp_path):
    stored = LIMIT.evaluate(X.astype(np.float32), out=tmp_path / "gram")
    assert stored.nngp.dtype == np.float32
    found = stored.posterior(TRAIN, Y[TRAIN], TEST, noise=0.05)
    wanted = LIMIT.posterior(X[TRAIN], Y[TRAIN], X[TEST], noise=0.05)
    assert found.mean.dtype == np.float64 and found.mean == pytest.approx(wanted.mean, abs=1e-4)


def test_what_is_refused(stored, tmp_path):
    y = Y[TRAIN]
    for numbers in ([0, 30], [-1], [], [[0]], [0.5], "all", None, np.ones(3, dtype=bool)):
        with pytest.raises(tp.EvaluationError, match=r"give numbers of inputs of .*, from 0 to 29, or a mask of 30"):
            stored.posterior(numbers, y)
        if numbers is not None:
            with pytest.raises(tp.EvaluationError, match="the test inputs: "):
                stored.posterior(TRAIN, y, numbers)
    with pytest.raises(tp.EvaluationError, match="15 inputs need"):
        stored.posterior(TRAIN, Y)
    for options in ({"γ": 2}, {"constants": {"γ": 2}}, {"ratios": {"k": 2}}, {"draws": 3}):
        with pytest.raises(tp.EvaluationError, match=f"`{next(iter(options))}` is given, but the matrices in"):
            stored.posterior(TRAIN, y, **options)
    between = LIMIT.evaluate(X, X[:3] + 1, out=tmp_path / "between")
    with pytest.raises(tp.EvaluationError, match="holds a matrix between two batches"):
        between.posterior([0], [1.0])
    mean = tp.derive(with_mean, tp.Kernels()).evaluate(X, out=tmp_path / "mean")
    with pytest.raises(tp.EvaluationError, match="the output of `with_mean` has the mean 2"):
        mean.posterior([0], [1.0])
    with pytest.raises(tp.EvaluationError, match="not positive definite"):
        stored.posterior([0, 0], [1.0, 2.0])
