"""Removable poles of scalars in training: beside the same networks written without them, or by their series."""

import math

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.program.nodes.series import on_arrays

X = np.array([[1.0, 0.0], [0.6, 0.8]])
TASK = {"error": tp.squared_error([1.0, -0.5]), "lr": 0.5, "steps": 3, "particles": 512, "block": 64, "replicates": 2}


def series(coefficient, terms=16):
    return tp.elementwise(lambda s: sum(sympy.Rational(coefficient(k)) * s**k for k in range(terms)))


SINC = series(lambda k: 0 if k % 2 else sympy.Rational((-1) ** (k // 2), math.factorial(k + 1)))
EXPC = series(lambda k: sympy.Rational(1, math.factorial(k + 1)))
EXPC2 = series(lambda k: sympy.Rational(1, math.factorial(k + 2)))


def network(function):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        h = W @ tp.tanh(tp.sum(U * ξ, over="d"))
        s = tp.avg(h)
        return v * tp.tanh(h * function(s)) * function(s)

    return net


@pytest.mark.long
@pytest.mark.parametrize(
    ("quotient", "same", "optimizer"),
    [
        (lambda s: tp.sin(s) / s, SINC, tp.Adam(eps=0.05)),
        (lambda s: (tp.exp(s) - 1) / s, EXPC, tp.Adam(eps=0.05)),
        (lambda s: (tp.exp(s) - 1 - s) / s**2, EXPC2, tp.SGD()),
    ],
    ids=["sin", "exp", "second order"],
)
def test_scalars_that_leave_zero_and_come_back(quotient, same, optimizer):
    found, twin = (
        tp.derive(network(one), tp.MaximalUpdate(optimizer)).evaluate(X, **TASK).f for one in (quotient, same)
    )
    assert found == pytest.approx(twin, abs=1e-9)
    assert abs(twin[-1, 0]) > 0.01


def beside(function):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        h = W @ tp.tanh(tp.sum(U * ξ, over="d"))
        return v * (tp.tanh(h) + function(h, tp.avg(h), tp.avg(h * h * h)))

    return net


def tanh_over(s):
    return tp.tanh(s) / s


#: quotients beside others, and the same without a pole, or with one of a scalar alone
BESIDE = {
    "scaled": (lambda h, s, t: (tp.exp(h * s) - 1) / s, lambda h, s, t: h * EXPC(h * s)),
    "second order": (lambda h, s, t: (1 - tp.cos(h * s)) / s**2, lambda h, s, t: h**2 * SINC(h * s / 2) ** 2 / 2),
    "moved": (
        lambda h, s, t: (tp.tanh(h + s) - tp.tanh(h)) / s,
        lambda h, s, t: (1 - tp.tanh(h) * tp.tanh(h + s)) * tanh_over(s),
    ),
    "difference": (
        lambda h, s, t: h * (tp.sin(s) - tp.sin(t)) / (s - t),
        lambda h, s, t: h * tp.cos((s + t) / 2) * SINC((s - t) / 2),
    ),
    "polynomials": (lambda h, s, t: h * (s**3 - t**3) / (s - t), lambda h, s, t: h * (s**2 + s * t + t**2)),
    "two functions": (
        lambda h, s, t: (tp.exp(h * s) - 1) / (tp.exp(s) - 1),
        lambda h, s, t: h * EXPC(h * s) / EXPC(s),
    ),
    "two poles": (lambda h, s, t: h * tp.sin(s * t) / (s * t), lambda h, s, t: h * SINC(s * t)),
}


@pytest.mark.long
@pytest.mark.parametrize("case", BESIDE)
def test_quotients_of_scalars_and_others(case):
    """Scalars that are 0 at the start, in a quotient with a vector or with another such scalar."""
    found, twin = (tp.derive(beside(one), tp.MaximalUpdate(tp.SGD())).evaluate(X, **TASK).f for one in BESIDE[case])
    assert found == pytest.approx(twin, abs=1e-9)
    without = tp.derive(beside(lambda h, s, t: 0 * h), tp.MaximalUpdate(tp.SGD())).evaluate(X, **TASK).f
    assert abs(found - without)[-1].max() > 1e-4


@pytest.mark.parametrize("size", [1.0, 30.0])
def test_series_with_functions_for_coefficients_end_where_their_last_terms_count(size):
    s, h = np.logspace(-12, 0, 150), size * np.linspace(-3, 3, 60)[:, None]
    terms = [h, 0 * h, -(h**3) / 6, 0 * h, h**5 / 120, 0 * h, -(h**7) / 5040]
    found = on_arrays(s, np.sin(h * s) / s, 0.5, *terms)
    assert found == pytest.approx(h * np.sinc(h * s / np.pi), abs=1e-12 * size)


def test_a_pole_that_is_none_at_zero_is_still_refused():
    with pytest.raises(tp.NoLimitError, match="not finite"):
        tp.derive(network(lambda s: tp.exp(s) / s), tp.MaximalUpdate(tp.SGD()))


def sinc_and_slope(s):
    return math.sin(s) / s, math.cos(s) / s - math.sin(s) / s**2


def trained(n, steps=4, lr=0.5):
    """f on the first input of v x sin(s)/s, s = ⟨x y⟩ − ⟨y²⟩, in μP by gradient descent, of one network."""
    U, y, v = (np.random.default_rng(k).standard_normal((n, 2)[: 2 - (k > 0)]) for k in range(3))
    targets, found = np.array([1.0, -0.5]), []
    for _ in range(steps + 1):
        dU, dy, dv, f = np.zeros_like(U), np.zeros(n), np.zeros(n), []
        for ξ, target in zip(X, targets, strict=True):
            x = U @ ξ
            gate, slope = sinc_and_slope(x @ y / n - y @ y / n)
            f.append(v @ x / n * gate)
            error, through = (f[-1] - target) / 2, v @ x / n * slope
            dv += error * gate * x
            dU += error * np.outer(gate * v + through * y, ξ)
            dy += error * through * (x - 2 * y)
        found.append(f[0])
        U, y, v = U - lr * dU, y - lr * dy, v - lr * dv
    return np.array(found)


def test_replicates_on_either_side_of_where_a_series_ends_are_no_zero():
    """s moves from −1 past −½ and back; some replicates read the series there, and others the quotient."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        s = tp.avg(x * y) - tp.avg(y * y)
        return v * x * tp.sin(s) / s

    task = TASK | {"steps": 4, "particles": 1024, "replicates": 4}
    limit = tp.derive(net, tp.MaximalUpdate(tp.SGD()))
    found = [limit.evaluate(X, **task, seed=seed).f[:, 0] for seed in range(4)]
    assert np.ptp(found, axis=0).max() < 1e-9
    many = trained(200_000)
    assert found[0] == pytest.approx(many, abs=0.02) and many[-1] > 0.3


def test_another_zero_of_a_continued_divisor_is_seen():
    """s/sin(s) has a removable pole at 0, and keeps that at π."""
    with pytest.raises(tp.TplimitsError, match=r"not clear of 0|not finite at the limit"):

        @tp.network
        def net(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
            x = tp.sum(U * ξ, over="d")
            s = tp.avg(x * y) + math.pi * tp.avg(y * y)
            return v * x * s / tp.sin(s)

        tp.derive(net, tp.MaximalUpdate(tp.SGD())).evaluate(X, **TASK)


@pytest.mark.parametrize(
    ("function", "reason"),
    [(tp.log, "what is divided by, or in a logarithm,"), (tp.sqrt, "what stands under a root")],
)
def test_what_passed_the_end_of_a_domain_in_one_step_is_named(function, reason):
    """⟨x²⟩ grows from 1 in one step: 6/5 − ⟨x²⟩ is far below 0, where training does not diverge."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * x * function(1.2 - tp.avg(x * x))

    limit = tp.derive(net, tp.MaximalUpdate(tp.SGD()))
    with pytest.raises(tp.EvaluationError, match=rf"{reason} `.*`, is -\d"):
        limit.evaluate(X, **TASK | {"lr": 4.0})
