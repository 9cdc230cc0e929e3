"""Estimators of tp.sklearn: scikit-learn's own checks, the package's posterior, bad data."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator

import tplimits as tp
from tplimits.sklearn.reading import kernels_of

ESTIMATORS = (tp.sklearn.NNGPRegressor, tp.sklearn.NTKRegressor, tp.sklearn.NTKClassifier)
RNG = np.random.default_rng(5)
X, X_TEST = RNG.standard_normal((30, 4)), RNG.standard_normal((7, 4))
Y = np.sin(X @ np.array([1.0, -1.0, 0.5, 0.0]))


@tp.network
def gelu_net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, *, γ=0.5):
    return v * tp.gelu(γ * tp.sum(U * ξ, over="d"))


@tp.network
def image(ξ: tp.Input["row", "column"], U: tp.Vector["column"], v: tp.Vector["row"]):
    return tp.sum(v * tp.relu(tp.sum(U * ξ, over="column")), over="row")


@tp.network
def gated(ξ: tp.Input["d"], m: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.relu(tp.sum(U * m * ξ, over="d"))


@tp.network
def signs(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.sign(tp.sum(U * ξ, over="d"))


@tp.network
def random_heads(
    ξ: tp.Input["d", "token"],
    U: tp.Vector["d"],
    Q: tp.Matrix["n", "n", "head"],
    P: tp.Matrix["n", "n", "head"],
    V: tp.Matrix["n", "n", "head"],
    v: tp.Vector["head"],
):
    x = tp.sum(U * ξ, over="d")
    logits = tp.sqrt(tp.n) * tp.avg((Q @ x) * (P @ x).rename(token="key"))
    values = tp.mean(tp.sum(tp.softmax(logits, over="key") * (V @ x).rename(token="key"), over="key"), over="token")
    return tp.sum(v * values, over="head") / tp.sqrt(tp.size("head"))


def by_cross_entropy():
    return tp.sklearn.NTKClassifier(loss="cross_entropy", steps=200)


@pytest.mark.parametrize("make", (*ESTIMATORS, by_cross_entropy))
def test_checks_of_scikit_learn(make):
    found = check_estimator(make(), on_skip=None, on_fail=None)
    assert [(c["check_name"], c["exception"]) for c in found if c["status"] == "failed"] == []
    passed = {c["check_name"] for c in found if c["status"] == "passed"}
    assert len(passed) > 40 and "check_estimators_pickle" in passed


@pytest.mark.parametrize("kernel", ["nngp", "ntk"])
@pytest.mark.parametrize("targets", [Y, np.stack([Y, Y**2], axis=1)], ids=["one", "two"])
def test_predictions_are_those_of_the_limit(kernel, targets):
    make = {"nngp": tp.sklearn.NNGPRegressor, "ntk": tp.sklearn.NTKRegressor}[kernel]
    model = make(gelu_net, noise=0.02, constants={"γ": 0.8}).fit(X, targets)
    limit = tp.derive(gelu_net, tp.Kernels())
    expected = limit.posterior(X, targets, X_TEST, noise=0.02, kernel=kernel, γ=0.8)
    assert model.predict(X_TEST) == pytest.approx(expected.mean, rel=1e-10, abs=1e-12)
    assert model.predict(X_TEST) != pytest.approx(limit.posterior(X, targets, X_TEST, noise=0.02, γ=0.9).mean, rel=1e-3)
    if kernel == "nngp":
        mean, std = model.predict(X_TEST, return_std=True)
        assert std.shape == mean.shape == targets[:7].shape
        assert std.reshape(7, -1)[:, -1] == pytest.approx(expected.std, rel=1e-10)


def test_the_ntk_predicts_what_training_ends_at():
    model = tp.sklearn.NTKRegressor(noise=1e-3).fit(X, Y)
    trained = kernels_of(None).train(X, Y, X_TEST, noise=1e-3, covariance=False)
    assert model.predict(X_TEST) == pytest.approx(trained.mean, rel=1e-8)


def test_test_inputs_are_predicted_in_parts(monkeypatch):
    monkeypatch.setattr("tplimits.sklearn.estimators._BATCH", 3)
    model = tp.sklearn.NNGPRegressor().fit(X, Y)
    mean, std = model.predict(X_TEST, return_std=True)
    expected = kernels_of(None).posterior(X, Y, X_TEST, noise=1e-2)
    assert mean == pytest.approx(expected.mean, rel=1e-9, abs=1e-11) and std == pytest.approx(expected.std, rel=1e-8)


def test_two_classes_are_the_sign_of_a_regression_on_plus_and_minus_one():
    labels = np.where(Y > 0, "up", "down")
    model = tp.sklearn.NTKClassifier(noise=0.1).fit(X, labels)
    regression = tp.sklearn.NTKRegressor(noise=0.1).fit(X, np.where(Y > 0, 1.0, -1.0))
    assert model.decision_function(X_TEST) == pytest.approx(regression.predict(X_TEST), rel=1e-10)
    assert model.predict(X_TEST).tolist() == np.where(regression.predict(X_TEST) > 0, "up", "down").tolist()


@pytest.mark.parametrize("many", [2, 3])
def test_classes_by_cross_entropy_are_those_of_descent(many):
    labels = np.digitize(Y, np.quantile(Y, np.linspace(0, 1, many + 1)[1:-1]))
    model = tp.sklearn.NTKClassifier(gelu_net, loss="cross_entropy", steps=60, momentum=0.8, noise=0.1).fit(X, labels)
    limit = tp.derive(gelu_net, tp.Kernels())
    bound = limit.max_learning_rate(X, momentum=0.8, noise=0.1, curvature=0.5)
    assert model.lr_ == pytest.approx(bound / 2, rel=1e-12)
    run = limit.descend(X, tp.cross_entropy(labels), outputs=many, steps=60, lr=bound / 2, momentum=0.8, noise=0.1).at(
        X_TEST
    )
    p = np.exp(run) / np.exp(run).sum(axis=1, keepdims=True)
    assert model.predict_proba(X_TEST) == pytest.approx(p, rel=1e-10)
    assert model.predict(X_TEST).tolist() == run.argmax(axis=1).tolist()
    decided = model.decision_function(X_TEST)
    assert decided == pytest.approx(run[:, 1] - run[:, 0] if many == 2 else run, rel=1e-10)
    assert pickle.loads(pickle.dumps(model)).predict_proba(X_TEST).tolist() == model.predict_proba(X_TEST).tolist()
    assert model.score(X, labels) > 0.9 > 0.8 > model.score(X, np.roll(labels, 1))
    other = tp.sklearn.NTKClassifier(gelu_net, loss="cross_entropy", steps=60, lr=bound / 9, noise=0.1).fit(X, labels)
    assert abs(other.predict_proba(X_TEST) - p).max() > 1e-3


def test_options_of_descent_are_checked():
    labels = (Y > 0).astype(int)
    assert not hasattr(tp.sklearn.NTKClassifier(), "predict_proba")
    for options, message in (
        ({"loss": "hinge"}, 'there is "squared_error" and "cross_entropy"'),
        ({"loss": "cross_entropy", "steps": -1}, "a number of steps is a whole number"),
        ({"loss": "cross_entropy", "lr": 0}, "a learning rate is a positive number"),
        ({"loss": "cross_entropy", "momentum": 1.5}, "a momentum is a number from 0 to below 1"),
        ({"loss": "cross_entropy", "noise": -1}, "finite number, 0 or more"),
    ):
        with pytest.raises(tp.EvaluationError, match=message):
            tp.sklearn.NTKClassifier(**options).fit(X, labels)


def test_digits_are_told_apart_as_well_as_by_a_support_vector_machine():
    images, labels = load_digits(return_X_y=True)
    first, rest = slice(0, 1000), slice(1000, None)
    scores = [
        make.fit(images[first] / 16, labels[first]).score(images[rest] / 16, labels[rest])
        for make in (tp.sklearn.NTKClassifier(), SVC())
    ]
    assert scores[0] > scores[1] > 0.9
    wrong = tp.sklearn.NTKClassifier().fit(images[first] / 16, np.roll(labels[first], 1))
    assert wrong.score(images[rest] / 16, labels[rest]) < 0.5


def test_rows_are_images_of_a_shape():
    model = tp.sklearn.NNGPRegressor(image, shape=(2, 2)).fit(X, Y)
    expected = tp.derive(image, tp.Kernels()).posterior(
        X.reshape(-1, 2, 2), Y, X_TEST.reshape(-1, 2, 2), noise=1e-2, covariance=False
    )
    assert model.predict(X_TEST) == pytest.approx(expected.mean, rel=1e-10)


def test_kernels_can_stand_for_the_network():
    limit = tp.derive(gelu_net, tp.Kernels(train=("v",)))
    model = clone(tp.sklearn.NTKRegressor(limit)).fit(X, Y)
    assert model.predict(X_TEST) == pytest.approx(
        limit.posterior(X, Y, X_TEST, noise=1e-2, kernel="ntk").mean, rel=1e-10
    )


@pytest.mark.long
def test_drawn_logits_come_from_the_same_draws_in_training_and_test():
    limit = tp.derive(random_heads, tp.Kernels(infinite=("head",)))
    model = pickle.loads(pickle.dumps(tp.sklearn.NNGPRegressor(limit, shape=(2, 2), noise=0.1).fit(X[:6], Y[:6])))
    expected = limit.posterior(X[:6].reshape(-1, 2, 2), Y[:6], X_TEST[:3].reshape(-1, 2, 2), noise=0.1)
    assert model.posterior_.given is None  # factored again with each call
    assert model.predict(X_TEST[:3]) == pytest.approx(expected.mean, rel=1e-10)
    with pytest.raises(tp.EvaluationError, match="other ones in each"):
        tp.sklearn.NetworkKernel(limit, shape=(2, 2))(X)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_fitted_models_survive_pickling(make):
    labels = (Y > 0).astype(int)
    model = make(gelu_net, constants={"γ": 0.7}).fit(X, labels)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(model.predict(X_TEST), again.predict(X_TEST))
    assert clone(model).get_params() == model.get_params()


def test_parameters_are_searched():
    found = GridSearchCV(tp.sklearn.NNGPRegressor(gelu_net), {"noise": [1e-3, 1e3]}, cv=2).fit(X, Y)
    assert found.best_params_ == {"noise": 1e-3}


def test_integers_are_read_as_numbers():
    whole = np.arange(12).reshape(6, 2) % 5
    for make in ESTIMATORS:
        target = np.array([0, 1, 0, 1, 1, 0])
        assert np.array_equal(
            make().fit(whole, target).predict(whole), make().fit(whole.astype(float), target).predict(whole)
        )


@pytest.mark.parametrize("make", ESTIMATORS)
def test_bad_data_is_refused(make):
    labels = (Y > 0).astype(int)
    holes = X.copy()
    holes[3, 1] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        make().fit(holes, labels)
    with pytest.raises(ValueError, match="2D array"):
        make().fit(X[:, 0], labels)
    with pytest.raises(ValueError, match="dim 3"):
        make().fit(X.reshape(-1, 2, 2), labels)
    with pytest.raises(ValueError, match="expecting 4 features"):
        make().fit(X, labels).predict(X[:, :3])
    with pytest.raises(tp.EvaluationError, match="are rows of 6 numbers"):
        make(shape=(2, 3)).fit(X, labels)
    with pytest.raises(tp.EvaluationError, match="positive whole numbers"):
        make(shape=(2, -2)).fit(X, labels)
    with pytest.raises(tp.EvaluationError, match="finite number, 0 or more"):
        make(noise=-1.0).fit(X, labels)
    with pytest.raises(tp.EvaluationError, match="no constant"):
        make(gelu_net, constants={"δ": 1}).fit(X, labels)
    with pytest.raises(tp.ProgramError, match="network=str"):
        make("mlp").fit(X, labels)


def test_what_the_regression_refuses_is_told():
    with pytest.raises(tp.EvaluationError, match="not positive definite"):
        tp.sklearn.NNGPRegressor(noise=0).fit(np.ones((3, 2)), [1.0, 2.0, 3.0])
    with pytest.raises(tp.NoLimitError, match="two jumps"):
        tp.sklearn.NTKRegressor(signs).fit(X, Y)
    assert tp.sklearn.NNGPRegressor(signs).fit(X, Y).score(X, Y) > 0.9
    with pytest.raises(tp.EvaluationError, match="takes the data ξ, m; rows of X hold one"):
        tp.sklearn.NNGPRegressor(gated).fit(X, Y)
    with pytest.raises(ValueError, match="one class"):
        tp.sklearn.NTKClassifier().fit(X, np.ones(30))
    with pytest.raises(ValueError, match="Unknown label type"):
        tp.sklearn.NTKClassifier().fit(X, Y)
