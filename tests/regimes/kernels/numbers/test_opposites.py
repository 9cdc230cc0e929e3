"""Inputs near the opposite of another keep their digits as those near it do, in the same way: −1 is as good as 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import reference_kernels as by_hand
from kernel_cases import ACTIVATIONS, mlp

import tplimits as tp
from tplimits import layers
from tplimits.numbers.loops import machine
from tplimits.regimes.kernels.numbers import evaluation
from tplimits.regimes.kernels.numbers.passes import plan
from tplimits.regimes.kernels.numbers.passes.banded import Banded
from tplimits.regimes.kernels.numbers.passes.lanes import Lanes
from tplimits.regimes.kernels.numbers.tables import laws

Array = np.ndarray
LEAKY = ACTIVATIONS["leaky_relu"]
TAPS = np.array([[-1, 0, 1], [0, 1, 2], [1, 2, -1]])


@pytest.fixture(autouse=True)
def no_many_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is done in extended precision or in many digits."""
    monkeypatch.setattr(evaluation, "wide", None)
    monkeypatch.setattr(machine, "_SPEED", 0)
    for code in (Lanes, Banded):
        monkeypatch.setattr(code, "rewritten", False)


# -- networks -------------------------------------------------------------------------------------------

Layers = Callable[..., Any]


def conv(x: Any, W: Any) -> Any:
    return tp.sum(W @ x.take(at=TAPS, axes=("tap", "at")), over="tap") / tp.sqrt(3)


def conv_by_hand(x: by_hand.Layer) -> by_hand.Layer:
    return by_hand.convolution(x, TAPS)


def φ(name: str) -> Callable[[by_hand.Layer], by_hand.Layer]:
    return lambda x: by_hand.activation(x, name)


NETWORKS: dict[str, tuple[Layers, Callable[[by_hand.Layer], by_hand.Layer]]] = {
    "two layers": (lambda x, W, M, b: tp.relu(conv(tp.relu(x), W)), lambda x: φ("relu")(conv_by_hand(φ("relu")(x)))),
    "bias": (lambda x, W, M, b: tp.relu(M @ x + b / 4), lambda x: φ("relu")(by_hand.dense(x, 1, 0.25))),
    "linear": (lambda x, W, M, b: tp.relu(conv(M @ x, W)), lambda x: φ("relu")(conv_by_hand(by_hand.dense(x)))),
    "residual": (
        lambda x, W, M, b: tp.relu(M @ (x + conv(x, W))),
        lambda x: φ("relu")(by_hand.dense(by_hand.add(x, conv_by_hand(x)))),
    ),
    "norm": (
        lambda x, W, M, b: tp.relu(conv(layers.layer_norm(x), W)),
        lambda x: φ("relu")(conv_by_hand(by_hand.layer_norm(x))),
    ),
    "leaky": (
        lambda x, W, M, b: LEAKY(conv(LEAKY(x), W)),
        lambda x: φ("leaky_relu")(conv_by_hand(φ("leaky_relu")(x))),
    ),
    "absolute": (lambda x, W, M, b: tp.relu(conv(tp.abs(x), W)), lambda x: φ("relu")(conv_by_hand(φ("abs")(x)))),
}


def network(body: Layers, each: bool) -> tp.Program:
    """Three tokens, read at each place or on average."""

    @tp.network
    def mean(
        ξ: tp.Input["d", "at"],
        U: tp.Vector["d"],
        W: tp.Matrix["n", "n", "tap"],
        M: tp.Matrix,
        b: tp.Vector,
        v: tp.Vector,
    ):
        x = body(layers.linear(ξ, U) / tp.sqrt(tp.size("d")), W, M, b)
        return v * tp.mean(x, over="at")

    @tp.network
    def flat(
        ξ: tp.Input["d", "at"],
        U: tp.Vector["d"],
        W: tp.Matrix["n", "n", "tap"],
        M: tp.Matrix,
        b: tp.Vector,
        v: tp.Vector["at"],
    ):
        x = body(layers.linear(ξ, U) / tp.sqrt(tp.size("d")), W, M, b)
        return tp.sum(v * x, over="at") / tp.sqrt(tp.size("at"))

    return (flat if each else mean).bind(at=3, tap=3)


def beside(x: Array, e: Array) -> Array:
    """x, another input, inputs near x in several ways, and the opposites of those."""
    pixel = x.copy()
    pixel[0, 1] += 1e-3
    near = [pixel, x + 1e-7 * e, 1.001 * x, 2 * x, x]
    return np.stack([x, e, *near, *(-other for other in near)])


def errors(name: str, each: bool, X: Array) -> float:
    """Of both kernels between the first input and all of them, as shares of the lengths."""
    body, layers_by_hand = NETWORKS[name]
    pair = tp.derive(network(body, each), tp.Kernels()).evaluate(X[:1], X)
    worst = 0.0
    for j in range(1, len(X)):
        with mpmath.workdps(40):
            data = by_hand.data(by_hand.high(X[[0, j]].transpose(0, 2, 1)))
            last = layers_by_hand(by_hand.dense(data))
            wanted = by_hand.floats(by_hand.flat_output(last) if each else by_hand.output(by_hand.pool(last)))
        for found, w in zip(pair, wanted, strict=True):
            worst = max(worst, abs(found[0, j] - w[0, 1]) / np.sqrt(w[0, 0] * w[1, 1]))
    return worst


@pytest.mark.parametrize(("name", "each"), [(name, k % 2 == 0) for k, name in enumerate(NETWORKS)])
def test_both_ends_keep_their_digits(name, each):
    X = beside(*np.random.default_rng(5).standard_normal((2, 2, 3)))
    # lengths 1.001 apart: 3e-11 behind a norm, whose factors have rounding of their own
    assert errors(name, each, X) < (1e-10 if name == "norm" else 1e-14)


def test_many_features():
    """Distances come from products of matrices there."""
    X = beside(*np.random.default_rng(6).standard_normal((2, 20, 3)))
    assert errors("absolute", False, X) < 1e-14


@pytest.mark.parametrize("name", ["two layers", "absolute"])
def test_compiled_and_in_single_precision(name, monkeypatch):
    X = beside(*np.random.default_rng(7).standard_normal((2, 2, 3))).astype(np.float32)
    limit = tp.derive(network(NETWORKS[name][0], False), tp.Kernels())
    wanted = limit.evaluate(X[:1], X.astype(float))
    monkeypatch.setattr(plan, "_WORTHWHILE", -1.0)
    monkeypatch.setattr(plan, "_FEW", -1)
    for found, exact in zip(limit.evaluate(X[:1], X.astype(float)), wanted, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-14)
    monkeypatch.setattr(evaluation, "_PAIRS", 0)
    monkeypatch.setattr(evaluation, "_SINGLE", 1)
    single = limit.evaluate(X[:1], X)
    assert single.ntk.dtype == np.float32
    for found, exact in zip(single, wanted, strict=True):
        np.testing.assert_allclose(found, exact, rtol=3e-6)


# -- laws -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slopes", [(1.0, 0.0), (1.0, -0.25), (1.0, 1.0), (1.0, 0.5)])
def test_gaps_of_piecewise_linear_functions(slopes):
    """φ(z) = f₊z₊ + f₋(−z)₊ = a z + b |z|: its kernel is a² c12 + b² E|z||z′|."""
    law = laws.Law(True, opposed=True)
    law.place(slopes)
    a, b = (slopes[0] - slopes[1]) / 2, (slopes[0] + slopes[1]) / 2
    with mpmath.workdps(40):
        for angle in [
            *map(mpmath.mpf, (0, "1e-9", "1e-4", "0.3", "1.5", "2.5")),
            mpmath.pi - mpmath.mpf("1e-6"),
            mpmath.pi,
        ]:
            for other in (mpmath.mpf(1), mpmath.mpf("1.25")):
                r, ρ = mpmath.sqrt(other), mpmath.cos(angle)
                absolute = 2 / mpmath.pi * (mpmath.sin(angle) + (mpmath.pi / 2 - angle) * ρ)
                gap = (a**2 + b**2) * (1 + other) / 2 - r * (a**2 * ρ + b**2 * absolute)
                near, away = ((1 + other) / 2 - s * r * ρ for s in (1, -1))
                given = [1, other, near, 1, r, 1, 1 / r, away]
                (found,) = law.arrays()(*(np.array([float(g)]) for g in given))
                assert abs(found[0] - float(gap)) < 4e-16 * (1 + float(other))


# -- one law of two inputs ------------------------------------------------------------------------------


def test_lists_of_opposite_inputs_of_a_perceptron(monkeypatch):
    """All pairs that are nearly opposite at once, by determinants along the recursion."""
    limit, X = tp.derive(mlp(2, "relu", 1.5, 0), tp.Kernels()), np.random.default_rng(8).standard_normal((6, 5))
    Y = np.concatenate([-X[:3], -2 * X[3:]])
    wanted = limit.evaluate(X, Y)
    asked: list[int] = []
    monkeypatch.setattr(plan, "_MANY", 0)
    made = plan.KernelPlan.at
    monkeypatch.setattr(plan.KernelPlan, "at", lambda *a: asked.append(len(a[3][0])) or made(*a))
    found = limit.evaluate(X, Y)
    assert asked == [6]
    for one, two in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-15)
