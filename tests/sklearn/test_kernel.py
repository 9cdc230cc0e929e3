"""The kernel object of tp.sklearn in scikit-learn's Gaussian processes and support vector machines."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC

import tplimits as tp
from tplimits.sklearn.reading import kernels_of

RNG = np.random.default_rng(8)
X, X_TEST = RNG.standard_normal((40, 3)), RNG.standard_normal((9, 3))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(40)


@tp.network
def linear(ξ: tp.Input["d"], U: tp.Vector["d"], *, γ=0.5, δ=2):
    return γ * tp.sum(U * ξ, over="d") / δ**3


@tp.network
def biased(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Vector, v: tp.Vector, *, γ=0.5):
    return v * tp.relu(tp.sum(U * ξ, over="d") + γ * b)


@tp.network
def positions(ξ: tp.Input["d", "token"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.relu(tp.sum(U * ξ, over="d"))


@pytest.mark.parametrize("name", ["nngp", "ntk"])
def test_gaussian_process_regression_is_the_posterior_of_the_limit(name):
    model = GaussianProcessRegressor(tp.sklearn.NetworkKernel(kernel=name), alpha=0.05).fit(X, Y)
    mean, covariance = model.predict(X_TEST, return_cov=True)
    limit = kernels_of(None)
    expected = limit.posterior(X, Y, X_TEST, noise=0.05, kernel=name)
    assert mean == pytest.approx(expected.mean, abs=1e-8)
    assert covariance == pytest.approx(expected.covariance, abs=1e-8)
    assert model.predict(X_TEST, return_std=True)[1] == pytest.approx(expected.std, abs=1e-8)
    evidence = limit.log_marginal_likelihood(X, Y, noise=0.05, kernel=name)
    assert model.log_marginal_likelihood_value_ == pytest.approx(evidence, abs=1e-8)
    other = limit.posterior(X, Y, X_TEST, noise=0.06, kernel=name)
    assert mean != pytest.approx(other.mean, abs=1e-5)


@pytest.mark.parametrize("name", ["nngp", "ntk"])
def test_support_vector_machine_with_the_kernel(name):
    labels = (X[:, 0] * X[:, 1] > 0).astype(int)
    limit = kernels_of(None)
    direct = SVC(kernel=tp.sklearn.NetworkKernel(kernel=name)).fit(X, labels)
    pair, cross = limit.evaluate(X), limit.evaluate(X_TEST, X)
    given = SVC(kernel="precomputed").fit(getattr(pair, name), labels)
    assert direct.decision_function(X_TEST) == pytest.approx(given.decision_function(getattr(cross, name)), abs=1e-8)
    assert direct.score(X, labels) > 0.8


def test_derivatives_in_the_constants_are_those_of_the_formula():
    """K = γ² ξ·ξ′/δ⁶: ∂K/∂log γ = 2 K, ∂K/∂log δ = −6 K."""
    kernel = tp.sklearn.NetworkKernel(linear, constants_bounds={"γ": (0.1, 10), "δ": (0.1, 10)})
    value, slopes = kernel(X, eval_gradient=True)
    assert value == pytest.approx(X @ X.T / 4 / 64, rel=1e-12)
    assert slopes == pytest.approx(np.stack([2 * value, -6 * value], axis=-1), rel=1e-6, abs=1e-10)
    fixed = tp.sklearn.NetworkKernel(linear, constants_bounds={"δ": (0.1, 10)})
    assert fixed.n_dims == 1 and fixed(X, eval_gradient=True)[1] == pytest.approx(-6 * value[..., None], rel=1e-6)


def test_constants_are_fitted_by_the_evidence():
    kernel = ConstantKernel(1.0, "fixed") * tp.sklearn.NetworkKernel(
        biased, constants_bounds=(1e-2, 1e2)
    ) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel).fit(X, Y)
    constants = model.kernel_.k1.k2.constants
    start = GaussianProcessRegressor(kernel, optimizer=None).fit(X, Y).log_marginal_likelihood_value_
    noise = model.kernel_.k2.noise_level
    evidence = [
        tp.derive(biased, tp.Kernels()).log_marginal_likelihood(X, Y, noise=noise, γ=constants["γ"] * c)
        for c in (1, 0.9, 1.1)
    ]
    assert model.log_marginal_likelihood_value_ > start + 0.1
    assert evidence[0] == pytest.approx(model.log_marginal_likelihood_value_, abs=1e-6) and evidence[0] > max(
        evidence[1:]
    )


def test_the_diagonal_is_that_of_the_matrix():
    kernel = tp.sklearn.NetworkKernel(biased, kernel="ntk")
    assert kernel.diag(X) == pytest.approx(kernel(X).diagonal(), rel=1e-12)
    assert kernel(X[:5], X) == pytest.approx(kernel(X)[:5], rel=1e-12)
    assert not kernel.is_stationary()


def test_kernels_are_cloned_pickled_compared_and_printed():
    kernel = tp.sklearn.NetworkKernel(biased, kernel="ntk", constants={"γ": 0.25})
    assert clone(kernel) == kernel == pickle.loads(pickle.dumps(kernel))
    moved = kernel.clone_with_theta(np.log([2.0]))
    assert moved.constants == {"γ": pytest.approx(2)} and kernel.constants == {"γ": 0.25} and moved != kernel
    assert repr(kernel) == "NetworkKernel(biased, 'ntk', γ=0.25)"
    assert kernel.set_params(constants__γ=3).constants == {"γ": 3.0}
    for wrong in ("a", None, np.nan):
        with pytest.raises(tp.EvaluationError, match=r"constants__γ=.*give a finite number"):
            kernel.set_params(constants__γ=wrong)
    fitted = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.1).fit(X, Y)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict(X_TEST), fitted.predict(X_TEST))


def test_single_precision_and_integers_are_read_as_numbers():
    kernel = tp.sklearn.NetworkKernel(biased)
    assert kernel(X.astype(np.float32)).dtype == np.float64
    assert np.array_equal(kernel(np.eye(3, dtype=int)), kernel(np.eye(3)))


def test_bad_input_is_refused():
    kernel = tp.sklearn.NetworkKernel(biased)
    with pytest.raises(tp.EvaluationError, match="it needs \\(N, d\\)"):
        kernel(X[0])
    for call in (kernel, kernel.diag):
        with pytest.raises(tp.EvaluationError, match="at least one input"):
            call(X[:0])
    with pytest.raises(tp.EvaluationError, match="X2 has 2 entries along `d`"):
        kernel(X, X[:, :2])
    with pytest.raises(tp.EvaluationError, match="NaN"):
        kernel(np.full((2, 3), np.nan))
    with pytest.raises(tp.EvaluationError, match="leave out Y"):
        kernel(X, X, eval_gradient=True)
    with pytest.raises(tp.EvaluationError, match="give one of the words 'nngp', 'ntk'"):
        tp.sklearn.NetworkKernel(biased, kernel="rbf")(X)
    with pytest.raises(tp.EvaluationError, match="logarithmic"):
        tp.sklearn.NetworkKernel(biased, constants={"γ": -1}).theta  # noqa: B018
    with pytest.raises(tp.EvaluationError, match="`δ` is no constant"):
        tp.sklearn.NetworkKernel(biased, constants_bounds={"δ": (1, 2)}).theta  # noqa: B018
    for bounds in ("free", (1, 2, 3), (0, 1), (2, 1), {"γ": (1, float("inf"))}):
        with pytest.raises(tp.EvaluationError, match="constants_bounds"):
            tp.sklearn.NetworkKernel(biased, constants_bounds=bounds).theta  # noqa: B018
    with pytest.raises(tp.EvaluationError, match="γ=nan: a constant is a finite real number"):
        tp.sklearn.NetworkKernel(biased, constants={"γ": float("nan")}).theta  # noqa: B018
    with pytest.raises(tp.EvaluationError, match="constants"):
        tp.sklearn.NetworkKernel(biased, constants=[0.5])(X)
    assert tp.sklearn.NetworkKernel(biased, constants={"γ": -1}, constants_bounds="fixed").n_dims == 0
    with pytest.raises(tp.EvaluationError, match="several correlated outputs"):
        tp.sklearn.NetworkKernel(positions, shape=(1, 3))(X)


def test_other_methods_of_scikit_learn_take_the_kernel():
    labels = (X[:, 0] > 0).astype(int)
    kernel = tp.sklearn.NetworkKernel(biased)
    classifier = GaussianProcessClassifier(kernel).fit(X, labels)
    assert classifier.score(X, labels) > 0.9
    assert (
        classifier.log_marginal_likelihood_value_
        > GaussianProcessClassifier(kernel, optimizer=None).fit(X, labels).log_marginal_likelihood_value_
    )
    ridge = KernelRidge(kernel=kernel, alpha=0.05).fit(X, Y)
    expected = tp.derive(biased, tp.Kernels()).posterior(X, Y, X_TEST, noise=0.05)
    assert ridge.predict(X_TEST) == pytest.approx(expected.mean, abs=1e-8)


def test_absence_of_scikit_learn_is_told_when_it_is_needed():
    """A path finder that knows no scikit-learn stands for an environment without it."""
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "sklearn":
            raise ModuleNotFoundError(f"No module named {name!r}")
sys.meta_path.insert(0, Absent())
import tplimits as tp
try:
    tp.sklearn.NNGPRegressor
except tp.EvaluationError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'tplimits[sklearn]'" in done.stdout
