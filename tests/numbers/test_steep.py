"""Functions of scalars that vary within the errors of the means over particles that they are made of."""

from __future__ import annotations

import math

import pytest

import tplimits as tp

#: E h² of h = W sin x
Q = (1 - math.exp(-2)) / 2


def of_a_zero(function):
    """E h² f(s), s = 0 by Stein's lemma: E h tanh h = E h² · E(1 − tanh² h) for Gaussian h."""

    def subject(x: tp.Vector, W: tp.Matrix):
        h = W @ tp.sin(x)
        share = tp.avg(h * tp.tanh(h)) / tp.avg(1 - tp.tanh(h) ** 2)
        return tp.avg(h * h * function(share - tp.avg(h * h)))

    return tp.derive(tp.program(subject))


def of_an_integral(function):
    """The same with s = E x tanh g − E(1 − tanh² g), g = x + sin(y_1 … y_8): more variables than quadrature takes."""

    def subject(x: tp.Vector, y: tp.Vector["k"]):
        t = tp.tanh(x + tp.sin(math.prod(y.sel(k=k) for k in range(8))))
        return tp.avg(x * x * function(tp.avg(x * t) - tp.avg(1 - t**2)))

    return tp.derive(tp.program(subject).bind(k=8))


STEEP = {
    "odd": (lambda s: tp.tanh(1e5 * s), 0.0),
    "even": (lambda s: tp.tanh(1e5 * s) ** 2, 0.0),
    "peak": (lambda s: tp.exp(-((1e6 * s) ** 2)), 1.0),
    "softmax": (lambda s: tp.exp(1e4 * s) / (tp.exp(1e4 * s) + 1), 0.5),
    "beside": (lambda s: 1 + tp.tanh(1e5 * s) / 2, 1.0),
    "Lorentz": (lambda s: 1 / (1 + (1e6 * s) ** 2), 1.0),
}


@pytest.mark.parametrize("name", STEEP)
def test_scalars_of_steep_functions_are_read_off_the_law(name):
    """They had been .20 ± .19, .31 ± .10, .0002 ± .0002 and the like."""
    function, at_zero = STEEP[name]
    found = of_a_zero(function).evaluate(method="particles", only=("return",))["return"]
    assert abs(found.value - Q * at_zero) <= 4 * found.error + 1e-9
    assert found.error < 0.01


@pytest.mark.parametrize("name", STEEP)
def test_steep_functions_of_scalars_that_the_law_does_not_know_are_refused(name):
    with pytest.raises(tp.EvaluationError, match=r"is steep where .* ± .*, as particles tell it, and moves `return`"):
        of_an_integral(STEEP[name][0]).evaluate(method="particles", only=("return",))


def of_vectors(function, plus=0):
    """A mean of the square of what is made of two vectors, a matrix and two scalars that are equal by Stein's lemma."""

    def subject(x: tp.Vector, u: tp.Vector, W: tp.Matrix, y: tp.Vector["k"]):
        t = tp.tanh(x + tp.sin(math.prod(y.sel(k=k) for k in range(8))))
        return plus + tp.avg(function(x, u, W, tp.avg(x * t), tp.avg(1 - t**2)) ** 2)

    return tp.derive(tp.program(subject).bind(k=8))


OF_VECTORS = {
    "beside a vector": lambda x, u, W, a, b: tp.tanh(1e5 * (a - b) * x),
    "of two vectors": lambda x, u, W, a, b: tp.tanh(1e5 * ((a * u).named("z") - b * u)),
    "of a vector that is one": lambda x, u, W, a, b: tp.tanh((1e5 * (a - b) * u).named("z")),
    "in an image": lambda x, u, W, a, b: W @ (tp.exp(-((1e6 * (a - b)) ** 2)) * x),
    "of an image": lambda x, u, W, a, b: tp.tanh(1e5 * (W @ ((a - b) * x))),
    "written out": lambda x, u, W, a, b: x * tp.exp(-1e10 * (a * a - 2 * a * b + b * b)),
    "logarithm": lambda x, u, W, a, b: x * tp.sqrt(tp.log(1 + 1e8 * (a - b) * (a - b)) + 1),
}


@pytest.mark.parametrize("name", OF_VECTORS)
def test_functions_of_scalars_and_vectors_are_refused_alike(name):
    limit = of_vectors(OF_VECTORS[name])
    for seed in range(2):
        with pytest.raises(tp.EvaluationError, match="as particles tell it"):
            limit.evaluate(method="particles", seed=seed, only=("return",))


def test_what_no_result_rests_on_may_be_steep():
    limit = of_vectors(lambda x, u, W, a, b: x * 0 + 1 + 0.01 * tp.tanh(1e5 * (a - b)) * tp.avg(x * u))
    found = limit.evaluate(method="particles", only=("return",))["return"]
    assert abs(found.value - 1) <= 4 * found.error + 1e-12 and found.error < 1e-9


#: of a steep z that is 0: an odd part of a function, and a vector that is z alone; and what z = 0 makes of the mean
LITTLE = {
    "odd": (lambda x, u, W, a, b: 1 + tp.tanh(1e5 * (a - b)) / 20 + 0 * x, 1.0),
    "even": (lambda x, u, W, a, b: tp.tanh(1e5 * (a - b)) * u / 5, 0.0),
}


@pytest.mark.parametrize("name", LITTLE)
def test_what_moves_a_result_by_little_is_part_of_its_error(name):
    """10 + E f²: by as much as a hundredth, of which replicates see one side, or all the same."""
    function, at_zero = LITTLE[name]
    limit = of_vectors(function, plus=10)
    for seed in range(6):
        found = limit.evaluate(method="particles", seed=seed, only=("return",))["return"]
        assert abs(found.value - 10 - at_zero) <= 2 * found.error
        assert 0.02 < found.error < 0.3


SMOOTH = {
    "slope": lambda s: tp.tanh(30 * s),
    "square": lambda s: tp.tanh(30 * s) ** 2,
    "kink": lambda s: tp.relu(s),
    "exponential": lambda s: tp.exp(5 * s) - 1,
}


@pytest.mark.parametrize("name", SMOOTH)
def test_what_is_smooth_keeps_its_number(name):
    limit = of_an_integral(SMOOTH[name])
    for seed in range(4):
        found = limit.evaluate(method="particles", seed=seed, only=("return",))["return"]
        assert abs(found.value) <= 3 * found.error < 0.3


def test_polynomials_have_the_error_of_replicates():
    def subject(x: tp.Vector):
        r, q = tp.avg(tp.relu(x)), tp.avg(tp.sin(x) ** 2)
        return r + r**2 * q

    limit = tp.derive(tp.program(subject))
    found = limit.evaluate(method="particles", conditioning="lazy")["return"]
    r = 1 / math.sqrt(2 * math.pi)
    assert abs(found.value - r - r**2 * Q) < 4 * found.error


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_peaks_at_means_that_other_peaks_move_are_refused(seed):
    """It was 0 ± 1e-14 for 1: s = E u² v² = 1 on the peak that all replicates pass by, 0 beside it."""

    def subject(u: tp.Vector, v: tp.Vector, x: tp.Vector, y: tp.Vector["k"]):
        t = tp.tanh(x + tp.sin(math.prod(y.sel(k=k) for k in range(8))))
        s = tp.avg(u * u * v * v * tp.exp(-((1e6 * (tp.avg(x * t) - tp.avg(1 - t**2))) ** 2)))
        return tp.exp(-((1e4 * (s - 1)) ** 2))

    limit = tp.derive(tp.program(subject).bind(k=8))
    with pytest.raises(tp.EvaluationError, match=r"is steep where .* ± .*, and moves `return` by 1 within that error"):
        limit.evaluate(method="particles", seed=seed, only=("return",))
