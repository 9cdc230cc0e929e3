"""The largest eigenvalue of the Hessian, against matrices made otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from watched import X, shallow

import tplimits as tp
from tplimits.watch.making import neurons
from tplimits.watch.making import neurons as lanczos
from tplimits.watch.making.neurons import sharpness

Y = np.sin(X[:, 0])


def sharpest(table, width, **other):
    how = {"error": tp.squared_error(Y), "optimizer": tp.SGD(), "lr": 0.1, "steps": 1, "sharpness": True, **other}
    rec = tp.watch(shallow, X, **how, widths=width, parametrization=table)
    return float(rec.run().curves["sharpness"][0]), rec.parameters(0)


@pytest.mark.parametrize("width", [6, 64])  # the whole matrix, and Lanczos
@pytest.mark.parametrize(("table", "a_out"), [(tp.MUP, 1.0), (tp.NTP, 0.5)])
def test_of_the_readout_alone_it_is_that_of_its_features(width, table, a_out):
    """L = |A v + c − y|²/2N with A = tanh(XU)/n^a_out: λ = p λ_max(AᵀA)/N, p = n in μP and 1 in NTP."""
    found, p = sharpest(table, width, only=["v"])
    A = np.tanh(X @ p["U"]) / width**a_out
    speed = width if table is tp.MUP else 1.0
    assert found == pytest.approx(speed * np.linalg.eigvalsh(A.T @ A)[-1] / len(X), rel=1e-4)


def test_of_all_parameters_it_is_that_of_differences():
    width = 5
    found, p = sharpest(tp.MUP, width)
    sizes, roots = [("U", 15), ("v", 5), ("b", 1)], np.repeat([np.sqrt(width)] * 2 + [1.0], [15, 5, 1])
    center = np.concatenate([p[name].ravel() for name, _ in sizes])

    def loss(w):
        U, v, b = w[:15].reshape(3, 5), w[15:20], w[20]
        return (((v * np.tanh(X @ U)).mean(axis=1) + 0.1 * b - Y) ** 2).sum() / (2 * len(X))

    h, size = 1e-3, len(center)
    steps = h * np.eye(size) * roots
    hessian = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            a, b = steps[i], steps[j]
            corners = loss(center + a + b) - loss(center + a - b) - loss(center - a + b) + loss(center - a - b)
            hessian[i, j] = corners / (4 * h * h)
    assert found == pytest.approx(np.linalg.eigvalsh(hessian)[-1], rel=1e-4)


@pytest.mark.parametrize("size", [1, 2, 3, 23, 24, 25, 60])
def test_quadratic_forms_of_any_size(size):
    rng = np.random.default_rng(size)
    H = rng.standard_normal((size, size))
    H = H + H.T
    found = sharpness(lambda w: {"w": H @ w["w"]}, {"w": rng.standard_normal(size)}, {"w": 4.0}, "")
    assert found == pytest.approx(4 * np.linalg.eigvalsh(H)[-1], rel=1e-3)


def test_widths_can_be_compared_with_one_another_and_with_the_limit():
    found = {n: np.mean([sharpest(tp.MUP, n, seeds=(s,), b=0.3)[0] for s in range(6)]) for n in (64, 256)}
    limit = sharpest(tp.MUP, tp.inf, particles=512, b=0.3)[0]
    assert limit == pytest.approx(found[256], rel=0.2)
    assert found[64] == pytest.approx(found[256], rel=0.3)


@pytest.mark.parametrize(("factor", "stable"), [(0.95, True), (1.05, False)])
def test_plain_descent_is_stable_below_two_over_it(factor, stable):
    """On a loss that is quadratic: the readout alone is trained."""
    λ, _ = sharpest(tp.MUP, 16, only=["v"])
    how = {"error": tp.squared_error(Y), "optimizer": tp.SGD(), "only": ["v"], "steps": 200, "every": 100}
    rec = tp.watch(shallow, X, **how, lr=factor * 2 / λ, widths=16)
    loss = rec.loss[16][0]
    assert (loss[-1] < loss[0]) == stable


def test_lanczos_that_does_not_converge_says_so(monkeypatch):
    def fails(*_, **__):
        raise lanczos.scipy.sparse.linalg.ArpackError(-9999)

    monkeypatch.setattr(lanczos.scipy.sparse.linalg, "eigsh", fails)
    with pytest.raises(tp.EvaluationError, match=r"largest eigenvalue of the Hessian was not found at step 0"):
        sharpest(tp.MUP, 64)


def test_looking_does_not_change_the_run():
    how = {"error": tp.squared_error(Y), "optimizer": tp.Adam(), "lr": 0.05, "steps": 3, "widths": 8}
    with_, without = (tp.watch(shallow, X, **how, sharpness=s).run() for s in (True, False))
    assert all(np.array_equal(with_.parameters[n], a) for n, a in without.parameters.items())


def bent(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.relu(tp.sum(U * ξ, over="d"))


def between_kinks(X, y, U, v):
    """The largest eigenvalue of the Hessian of |Σ_k v_k relu(U_k·x)/n − y|²/2N, without what kinks add, times n."""
    n, on = len(v), (X @ U > 0).astype(float)
    f, χ = (v * on * (X @ U)).mean(axis=1), None
    χ = (f - y) / len(X)
    by_U = (v * on)[:, None, :] * X[:, :, None] / n
    J = np.concatenate([by_U.reshape(len(X), -1), on * (X @ U) / n], axis=1)
    H = J.T @ J / len(X)
    for k in range(n):
        mixed = (χ * on[:, k]) @ X / n
        for i, m in enumerate(mixed):
            H[i * n + k, U.size + k] += m
            H[U.size + k, i * n + k] += m
    return n * np.linalg.eigvalsh(H)[-1]


def test_steps_over_kinks_are_not_taken_for_curvature(monkeypatch):
    """A neuron whose kink lies 3e-8 beside an input: steps of 1e-6 pass it, shorter ones do not."""
    rng = np.random.default_rng(5)
    x, U, v = rng.standard_normal((40, 3)), rng.standard_normal((3, 48)), 1 + rng.random(48)
    U[:, 7] += x[0] * (3e-8 - x[0] @ U[:, 7]) / (x[0] @ x[0])
    y = np.sin(x[:, 0])
    how = {"error": tp.squared_error(y), "optimizer": tp.SGD(), "lr": 0.3, "steps": 6, "start": {"U": U, "v": v}}
    found = tp.watch(tp.network(bent), x, **how, widths=48, sharpness=True)
    right = [between_kinks(x, y, p["U"], p["v"]) for p in map(found.parameters, range(7))]
    right[0] = between_kinks(x, y, U, v)  # in single precision the input is on the other side
    assert found.run().curves["sharpness"] == pytest.approx(right, rel=5e-3)
    monkeypatch.setattr(neurons, "has_kink", lambda net: False)
    wrong = tp.watch(tp.network(bent), x, **how, widths=48, sharpness=True)
    assert wrong.run().curves["sharpness"][0] > 100 * right[0]


def test_a_kink_at_the_parameters_is_told():
    def gradients(w):
        return {"w": w["w"] + 3 * np.sign(w["w"] - 1) * np.arange(1, 31)}

    with pytest.raises(tp.EvaluationError, match="every step around the parameters passes a kink"):
        sharpness(gradients, {"w": np.ones(30)}, {"w": 1.0}, "at step 0", kinks=True)
