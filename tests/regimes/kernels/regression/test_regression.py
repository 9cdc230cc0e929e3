"""Regression with the kernels of a network beside formulas written out, mpmath and SciPy's normal density."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import tplimits as tp
from tplimits.regimes.kernels.regression.factor import eigen, factored


@tp.network
def erf_net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, b: tp.Scalar):
    x = tp.erf(tp.sum(U * ξ, over="d"))
    return tp.readout(v * tp.erf(W @ x)) + 0.5 * b


@tp.network
def linear(ξ: tp.Input["d"], U: tp.Vector["d"]):
    return tp.sum(U * ξ, over="d")


@tp.network
def tokens(ξ: tp.Input["token", "d"], U: tp.Vector["d"], v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    return v * tp.relu(x + 0.5 * tp.mean(x.rename(token="other"), over="other"))


@tp.network
def softmax_heads(
    ξ: tp.Input["token", "d"],
    U: tp.Vector["d"],
    Q: tp.Matrix["k", "n", "head"],
    K: tp.Matrix["k", "n", "head"],
    V: tp.Matrix["m", "n", "head"],
    O: tp.Matrix["n", "m", "head"],  # noqa: E741
    v: tp.Vector,
):
    x = tp.sum(U * ξ, over="d")
    G = tp.avg((Q @ x) * (K @ x).rename(token="key")) * tp.sqrt(tp.width("k"))
    f = tp.sum(tp.softmax(G, over="key") * (V @ x).rename(token="key"), over="key")
    return v * tp.mean(tp.sum(O @ f, over="head") / tp.sqrt(tp.size("head")), over="token")


ERF = tp.derive(erf_net, tp.Kernels())
RNG = np.random.default_rng(0)
X, X2 = RNG.standard_normal((6, 3)), RNG.standard_normal((4, 3))
Y = RNG.standard_normal((6, 2))


def formulas(K11, K12, K22, y, noise):
    inverse = np.linalg.inv(K11 + noise * np.eye(len(K11)))
    return K12.T @ inverse @ y, K22 - K12.T @ inverse @ K12


@pytest.mark.parametrize("kernel", ("nngp", "ntk"))
def test_mean_and_covariance(kernel):
    K11, K12, K22 = (getattr(ERF.evaluate(*pair), kernel) for pair in ((X,), (X, X2), (X2,)))
    for y in (Y, Y[:, 0], Y[:, :1]):
        mean, covariance = formulas(K11, K12, K22, y, 0.1)
        found = ERF.posterior(X, y, X2, noise=0.1, kernel=kernel)
        assert found.mean.shape == mean.shape
        np.testing.assert_allclose(found.mean, mean, atol=1e-12)
        np.testing.assert_allclose(found.covariance, covariance, atol=1e-12)
        np.testing.assert_allclose(found.std, np.sqrt(np.diag(covariance)), atol=1e-12)
    assert ERF.posterior(X, Y, X2, noise=0.1, covariance=False).covariance is None


def test_against_fifty_digits():
    """K(x, x′) of one layer in mpmath, the system solved there: noise 1e-9 leaves 1e-6 of the digits."""

    @tp.network
    def one_layer(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.erf(tp.sum(U * ξ, over="d"))

    points, at, y, noise = [0.2, 0.9, 1.7, -1.1], [0.5], [1.0, -2.0, 0.5, 0.25], 1e-9
    with mpmath.workdps(50):

        def k(a, b):
            a, b = mpmath.mpf(a), mpmath.mpf(b)
            return 2 / mpmath.pi * mpmath.asin(2 * a * b / mpmath.sqrt((1 + 2 * a * a) * (1 + 2 * b * b)))

        G = mpmath.matrix([[k(a, b) + (noise if a == b else 0) for b in points] for a in points])
        c = mpmath.matrix([k(a, at[0]) for a in points])
        mean = float((c.T * mpmath.lu_solve(G, mpmath.matrix(y)))[0])
        variance = float(k(at[0], at[0]) - (c.T * mpmath.lu_solve(G, c))[0])
        evidence = float(
            -(mpmath.matrix(y).T * mpmath.lu_solve(G, mpmath.matrix(y)))[0] / 2
            - mpmath.log(mpmath.det(G)) / 2
            - 2 * mpmath.log(2 * mpmath.pi)
        )
    limit = tp.derive(one_layer, tp.Kernels())
    column = np.array(points)[:, None]
    found = limit.posterior(column, y, [at], noise=noise)
    np.testing.assert_allclose(found.mean, [mean], rtol=1e-9)
    np.testing.assert_allclose(found.covariance, [[variance]], rtol=1e-9)
    np.testing.assert_allclose(limit.log_marginal_likelihood(column, y, noise), evidence, rtol=1e-9)


@pytest.mark.parametrize("kernel", ("nngp", "ntk"))
def test_the_marginal_likelihood_is_a_normal_density(kernel):
    K = getattr(ERF.evaluate(X), kernel) + 0.2 * np.eye(6)
    wanted = sum(multivariate_normal(np.zeros(6), K).logpdf(y) for y in Y.T)
    np.testing.assert_allclose(ERF.log_marginal_likelihood(X, Y, 0.2, kernel=kernel), wanted, rtol=1e-12)


def test_outputs_with_axes_are_predicted_together():
    """Per-token outputs: training inputs of three tokens, test inputs of two."""
    limit = tp.derive(tokens, tp.Kernels())
    A, B = RNG.standard_normal((4, 3, 5)), RNG.standard_normal((2, 2, 5))
    y = RNG.standard_normal((4, 3))
    K11, K12, K22 = (limit.evaluate(*pair).nngp for pair in ((A,), (A, B), (B,)))
    flat = [K.transpose(0, 2, 1, 3).reshape(K.shape[0] * K.shape[2], -1) for K in (K11, K12, K22)]
    mean, covariance = formulas(*flat, y.ravel(), 0.1)
    found = limit.posterior(A, y, B, noise=0.1)
    np.testing.assert_allclose(found.mean, mean.reshape(2, 2), atol=1e-12)
    np.testing.assert_allclose(found.covariance, covariance.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3), atol=1e-12)
    np.testing.assert_allclose(found.std.ravel(), np.sqrt(np.diag(covariance)), atol=1e-12)
    several = limit.posterior(A, np.stack([y, 2 * y], axis=-1), B, noise=0.1).mean
    np.testing.assert_allclose(several, np.stack([found.mean, 2 * found.mean], axis=-1), atol=1e-12)


def test_kernels_from_draws_use_the_same_draws_everywhere():
    """With draws of their own for each block the covariance at the training inputs would not be nearly 0."""
    limit = tp.derive(softmax_heads, tp.Kernels(infinite=("head",)))
    A = RNG.standard_normal((4, 3, 5))
    found = limit.posterior(A, np.ones(4), A[:3].copy(), noise=1e-9, draws=400)
    np.testing.assert_allclose(found.mean, 1, atol=1e-6)
    np.testing.assert_allclose(found.covariance, 0, atol=1e-8)
    assert limit.evaluate(A, draws=400).nngp_error.max() > 1e-4


def test_tiles_do_not_change_the_matrices(monkeypatch):
    wanted = ERF.posterior(X, Y, X2, noise=0.1), ERF.train(X, Y, X2, time=3.0)
    monkeypatch.setattr("tplimits.regimes.kernels.numbers.evaluation._TILE", 4)
    for found, expected in zip(
        (ERF.posterior(X, Y, X2, noise=0.1), ERF.train(X, Y, X2, time=3.0)), wanted, strict=True
    ):
        np.testing.assert_allclose(found.mean, expected.mean, atol=1e-13)
        np.testing.assert_allclose(found.covariance, expected.covariance, atol=1e-13)


def test_the_factor_stands_in_the_memory_of_the_matrix():
    gram = np.asfortranarray(X @ X.T)
    kept = gram + 0.1 * np.eye(6)
    factor = factored(gram, 0.1, "nngp")
    assert np.shares_memory(factor.lower, gram)
    L = np.tril(factor.lower)
    np.testing.assert_allclose(L @ L.T, kept, atol=1e-14)
    right = np.asfortranarray(Y)
    half = factor.half(right)
    assert np.shares_memory(half, right)
    np.testing.assert_allclose(L @ half, Y, atol=1e-13)


BAD = (
    ({"y": Y[:3]}, r"y has shape \(3, 2\); 6 inputs need \(6,\), or \(6, outputs\)"),
    ({"y": np.ones((6, 1, 1))}, r"y has shape \(6, 1, 1\)"),
    ({"y": np.ones((6, 0))}, r"y has shape \(6, 0\)"),
    ({"y": [0, 1, 2, np.nan, 4, 5]}, "`y` has NaN or infinite entries"),
    ({"y": "targets"}, "`y` is given a value of type str"),
    ({"noise": -0.1}, "noise=-0.1: the variance of the noise is a finite number, 0 or more"),
    ({"noise": np.nan}, "noise=nan: the variance"),
    ({"noise": "a"}, "noise='a': the variance"),
    ({"X_test": np.ones((2, 4))}, "entries along `d`"),
    ({"X_test": np.ones(3)}, r"X2 has shape \(3,\)"),
    ({"X_train": X * np.inf}, "NaN or infinite"),
    ({"gain": 3}, "`gain` is no constant of `erf_net`"),
)


@pytest.mark.parametrize(("changed", "message"), BAD)
def test_what_is_refused(changed, message):
    options = {"X_train": X, "y": Y, "X_test": X2, "noise": 0.1, **changed}
    for method in (ERF.posterior, ERF.train):
        with pytest.raises(tp.EvaluationError, match=message):
            method(**options)


def test_the_kernel_has_to_be_one_of_two():
    with pytest.raises(tp.EvaluationError, match="kernel='both': give one of the words 'nngp', 'ntk'"):
        ERF.posterior(X, Y, kernel="both")


def test_more_inputs_than_dimensions_need_noise():
    """The proposed noise is enough."""
    limit = tp.derive(linear, tp.Kernels())
    calls = (lambda s: limit.posterior(X, Y, noise=s), lambda s: limit.log_marginal_likelihood(X, Y, s))
    for call in (*calls, lambda s: limit.train(X, Y, noise=s)):
        with pytest.raises(
            tp.EvaluationError, match=r"has eigenvalues from .* to .*: it is not positive definite"
        ) as caught:
            call(0.0)
        call(float(str(caught.value).rsplit("noise=", 1)[1].rstrip(".")))


def test_a_matrix_that_is_not_positive_names_its_smallest_eigenvalue():
    gram = np.array([[1.0, 2.0], [2.0, 1.0]], order="F")
    with pytest.raises(
        tp.EvaluationError, match=r"NNGP matrix of 2 rows has eigenvalues from -1 to 3: .* Give noise=2."
    ):
        factored(gram.copy(order="F"), 0.0, "nngp")
    with pytest.raises(tp.EvaluationError, match="eigenvalues from -1 to 3"):
        eigen(gram, 0.0, "ntk")


@pytest.mark.parametrize(("many", "rank"), [(300, 3), (200, 199), (2, 1)])
def test_as_many_eigenvalues_as_the_rank_are_not_zero(many, rank):
    """Rounding leaves the others a few ε of the largest, of either sign: they are 0, and no reason to refuse."""
    features = np.random.default_rng(many).standard_normal((many, rank))
    features[-1] = features[0]
    values, vectors = eigen(np.asfortranarray(features @ features.T), 0.0, "ntk")
    assert (values > 0).sum() == min(rank, many - 1) and (values >= 0).all()
    np.testing.assert_allclose(vectors * values @ vectors.T, features @ features.T, atol=1e-10)


def test_a_mixture_has_no_single_posterior():
    limit = tp.derive(softmax_heads.bind(head=1), tp.Kernels())
    with pytest.raises(tp.EvaluationError, match="the limit is a mixture"):
        limit.posterior(np.ones((2, 3, 4)), [0, 1])


def test_predictions_beyond_double_precision_are_refused():
    limit = tp.derive(linear, tp.Kernels())
    huge = 1.7e308 * np.sign(Y)
    calls = (lambda: limit.posterior(X, huge, X[:2], noise=0.1), lambda: limit.train(X, huge, X[:2], time=3.0))
    for call in calls:
        with pytest.raises(tp.EvaluationError, match="the targets are too large"):
            call()
    assert np.isfinite(limit.posterior(X, 1e-3 * huge, X[:2], noise=0.1).mean).all()
