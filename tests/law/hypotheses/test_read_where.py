"""Growth of functions in pieces, and of quotients of exponentials, beside their values far out."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy
from scipy import special

import tplimits as tp
from tplimits.law.gaussians import independent
from tplimits.law.hypotheses.moments import tail
from tplimits.law.hypotheses.tails import Growth
from tplimits.program.nodes import functions

x, y = sympy.symbols("x y", real=True)
LAW = independent([x, y])
where, step = functions.where, functions.step
exp, sinh, cosh = sympy.exp, sympy.sinh, sympy.cosh

#: (function of x, the same in numbers)
KETS = {
    "elu": (where(x, x, exp(x) - 1), lambda x: x if x > 0 else mpmath.expm1(x)),
    "its slope": (step(x) + (1 - step(x)) * exp(x), lambda x: 1 if x > 0 else mpmath.exp(x)),
    "by steps": (x * step(x) + (exp(2 * x) - 1) * step(-x), lambda x: x if x > 0 else mpmath.expm1(2 * x)),
    "of another scale": (where(2 * x - 1, x, exp(3 * x)), lambda x: x if x > 0.5 else mpmath.exp(3 * x)),
    "softplus": (where(x, x + sympy.log(1 + exp(-x)), sympy.log(1 + exp(x))), lambda x: mpmath.log1p(mpmath.exp(x))),
    "a power and an exponential": (where(x, x**2, exp(3 * x)), lambda x: x**2 if x > 0 else mpmath.exp(3 * x)),
    "both sides": (where(x, exp(-x), exp(x)), lambda x: mpmath.exp(-abs(x))),
    "nested": (
        where(x - 1, x, where(x + 1, exp(x), x**2)),
        lambda x: x if x > 1 else mpmath.exp(x) if x > -1 else x**2,
    ),
    "nested, the other way": (
        where(x, where(x - 1, x, exp(x)), exp(x)),
        lambda x: x if x > 1 else mpmath.exp(x),
    ),
    "swapped": (where(x, exp(x) - 1, x), lambda x: mpmath.expm1(x) if x > 0 else x),
    "turned": (where(-x, x, exp(x) - 1), lambda x: x if x < 0 else mpmath.expm1(x)),
    "from below alone": (where(x + 5, exp(x), x), lambda x: mpmath.exp(x) if x > -5 else x),
    "nested and swapped": (
        where(x + 1, where(x - 1, exp(x), x), x**2),
        lambda x: mpmath.exp(x) if x > 1 else x if x > -1 else x**2,
    ),
    "beyond a circle": (where(x**2 - 1, exp(x), x), lambda x: mpmath.exp(x) if abs(x) > 1 else x),
    "tanh": (sinh(x) / cosh(x), mpmath.tanh),
    "tanh of a half": (sinh(x) / (1 + cosh(x)), lambda x: mpmath.tanh(x / 2)),
    "sech": (exp(x) / (1 + exp(2 * x)), lambda x: 1 / (mpmath.exp(x) + mpmath.exp(-x))),
    "silu": (x * exp(x) / (1 + exp(x)), lambda x: x / (1 + mpmath.exp(-x))),
    "a slope of sigmoid": (exp(-x) / (1 + exp(-x)) ** 2, lambda x: 1 / (2 * mpmath.cosh(x / 2)) ** 2),
    "outgrown on one side": (exp(x) / (1 + exp(-x)), lambda x: mpmath.exp(x) / (1 + mpmath.exp(-x))),
    "outgrown by half": (exp(2 * x) / (1 + exp(x)), lambda x: mpmath.exp(2 * x) / (1 + mpmath.exp(x))),
    "sinh² / cosh": (sinh(x) ** 2 / cosh(x), lambda x: mpmath.sinh(x) ** 2 / mpmath.cosh(x)),
}


@pytest.mark.parametrize("case", KETS)
def test_pieces_grow_as_they_do_where_they_are_read(case):
    ket, value = KETS[case]
    # no polynomial of degree 2 and these coefficients is above an exponential at 200
    is_fast = any(abs(value(mpmath.mpf(at))) > 1e6 * (1 + at**2) for at in (-200, 200))
    assert (tail(ket, LAW).kind is Growth.EXPONENTIAL) == is_fast


@pytest.mark.parametrize("case", KETS)
def test_conditions_on_several_variables_bound_what_grows_along_them(case):
    """f((x + 2 y)/3) is as f(x), in products with other variables as well."""
    ket, value = KETS[case]
    is_fast = any(abs(value(mpmath.mpf(at))) > 1e6 * (1 + at**2) for at in (-200, 200))
    turned = ket.xreplace({x: (x + 2 * y) / 3})
    assert (tail(y * turned, LAW).kind is Growth.EXPONENTIAL) == is_fast


def test_a_condition_on_another_variable_bounds_nothing():
    assert tail(where(y, x, exp(x)), LAW).kind is Growth.EXPONENTIAL
    assert tail(where(x + y, x, exp(x)), LAW).kind is Growth.EXPONENTIAL
    assert tail(where(x + y, x, exp(x + y)), LAW).kind is Growth.POLYNOMIAL


#: a step or a relu beside the same of the opposite argument, and the mean by one integral over z ~ N(0.7, 1)
MIRRORED = {
    "steps": (lambda z: 1 / (tp.step(z) + 2 * tp.step(-z)), lambda z: np.where(z > 0, 1, 0.5)),
    "relus": (
        lambda z: tp.relu(z) / (tp.relu(z) + 3 * tp.relu(-z)),
        lambda z: np.where(z > 0, 1.0, 0.0),
    ),
    "of a difference": (
        lambda z: z * z / (tp.step(z - 1) + 4 * tp.step(1 - z)),
        lambda z: np.where(z > 1, z**2, z**2 / 4),
    ),
}


@pytest.mark.parametrize("case", MIRRORED)
def test_sides_of_opposite_arguments_go_together(case):
    """1/(step(z) + step(−z)) is never divided by 0: it had been refused."""
    function, same = MIRRORED[case]

    def subject(z: tp.Vector, m: tp.Vector):
        return tp.avg(function(z + 0.7) * m * m)

    found = tp.derive(tp.program(subject)).evaluate()["return"].value
    z = np.linspace(-9, 9, 1_800_001) + 5e-6
    truth = np.sum(same(z + 0.7) * np.exp(-z * z / 2)) / np.sqrt(2 * np.pi) * 1e-5
    assert found == pytest.approx(truth, abs=1e-5)
    assert abs(found - 1.01 * truth) > 1e-4


def test_opposite_sides_of_what_may_be_0_stay_a_pole():
    def subject(z: tp.Vector):
        return tp.avg(1 / (tp.step(tp.relu(z)) + tp.step(-tp.relu(z))))

    with pytest.raises(tp.TplimitsError, match="moment not established"):
        tp.derive(tp.program(subject)).evaluate()


#: a pole at 0 that a jump, or a kink, elsewhere keeps a function away from; the nearest jump that does not
KEPT_AWAY = {
    "step(z − 1)/z": (lambda z: tp.step(z - 1) / z, lambda z: tp.step(z + 1) / z, lambda z: (z > 1) / z),
    "relu(z − 1)/z": (lambda z: tp.relu(z - 1) / z, lambda z: tp.relu(z + 1) / z, lambda z: np.maximum(z - 1, 0) / z),
    "where(z > 1, 1/z, z)": (
        lambda z: tp.where(z - 1, 1 / z, z),
        lambda z: tp.where(z + 1, 1 / z, z),
        lambda z: np.where(z > 1, 1 / z, z),
    ),
    "step(|z| − 1)/z³": (
        lambda z: tp.step(tp.abs(z) - 1) / z**3,
        lambda z: tp.step(tp.abs(z) + 1) / z**3,
        lambda z: (abs(z) > 1) / z**3,
    ),
    "step(z² − 2)/z": (
        lambda z: tp.step(z**2 - 2) / z,
        lambda z: tp.step(2 - z**2) / z,
        lambda z: (z**2 > 2) / z,
    ),
    "relu(−z)/(z − 2)": (
        lambda z: tp.relu(-z) / (z - 2),
        lambda z: tp.relu(z) / (z - 2),
        lambda z: np.maximum(-z, 0) / (z - 2),
    ),
    "where(z > 1, 1/relu(z), z)": (
        lambda z: tp.where(z - 1, 1 / tp.relu(z), z),
        lambda z: tp.where(z + 1, 1 / tp.relu(z), z),
        lambda z: np.where(z > 1, 1 / np.maximum(z, 1), z),
    ),
    "where(|z| > ½, |z|^(−7/10), z)": (
        lambda z: tp.where(tp.abs(z) - 0.5, tp.abs(z) ** -0.7, z),
        lambda z: tp.where(0.5 - tp.abs(z), tp.abs(z) ** -0.7, z),
        lambda z: np.where(abs(z) > 0.5, abs(z) ** -0.7, z),
    ),
    "relu(z² − 1)/z²": (
        lambda z: tp.relu(z**2 - 1) / z**2,
        lambda z: tp.relu(z**2 + 1) / z**2,
        lambda z: np.maximum(z**2 - 1, 0) / z**2,
    ),
}


def by_width(function):
    @tp.program
    def program(z: tp.Vector):
        return tp.avg((function(z + 0.3) + z) ** 2)

    return tp.derive(program).evaluate()["return"].value


def by_kernels(function):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        z = tp.sum(U * ξ, over="d")
        return v * (function(z + 0.3) + z)

    return tp.derive(net, tp.Kernels(train=("v",))).evaluate(np.array([[0.6, 0.8]])).nngp.item()


@pytest.mark.parametrize("engine", [by_width, by_kernels])
@pytest.mark.parametrize("case", KEPT_AWAY)
def test_a_pole_that_is_never_come_near_is_none(case, engine):
    function, twin, same = KEPT_AWAY[case]
    z = np.linspace(-9, 9, 1_800_001) + 5e-6
    truth = np.sum((same(z + 0.3) + z) ** 2 * np.exp(-z * z / 2)) / np.sqrt(2 * np.pi) * 1e-5
    assert engine(function) == pytest.approx(truth, abs=1e-5)
    with pytest.raises(tp.TplimitsError, match=r"second moment|not established"):
        engine(twin)


def test_exponentials_far_out_are_asked_where_they_are_read():
    """Half of elu by the other half, written out in a mean over tokens, is 0: it was believed to lie far out."""
    U0 = tp.init(mean=0.3, std=1)

    @tp.network
    def net(ξ: tp.Input["token", "d"], W: tp.Matrix, v: tp.Vector, U: tp.Vector["d"] = U0):
        h = lambda: tp.sum(U * ξ, over="d")  # noqa: E731 - written out in every place
        elu = lambda: tp.where(h(), h(), tp.exp(h()) - 1)  # noqa: E731
        gelu = W @ elu() * (1 + tp.erf(W @ elu() / sympy.sqrt(2))) / 2
        return v * tp.mean(elu() + 0.7 * gelu, over="token")

    X = np.array([[[-0.6, -1.0], [0.6, -0.2]]])
    found = tp.derive(net, tp.Kernels(train=("U",))).evaluate(X).ntk.item()
    generator = np.random.default_rng(0)
    h = (0.3 + generator.normal(size=(400_000, 2))) @ X[0].T
    elu, slope = np.where(h > 0, h, np.expm1(h)), np.where(h > 0, 1, np.exp(h))
    image = generator.multivariate_normal(np.zeros(2), elu.T @ elu / len(h), len(h))
    of_image = (1 + special.erf(image / np.sqrt(2))) / 2 + image * np.exp(-(image**2) / 2) / np.sqrt(2 * np.pi)
    slopes, of_images = (f.T @ f / len(h) for f in (slope, of_image))
    truth = np.mean((1 + 0.49 * of_images) * slopes * (X[0] @ X[0].T))
    assert found == pytest.approx(truth, rel=6e-3)
    assert 1.02 * found != pytest.approx(truth, rel=6e-3)
