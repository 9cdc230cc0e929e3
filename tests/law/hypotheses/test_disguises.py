"""Zeros in further disguises: closed numbers that cancel, identities between functions, means over another neuron."""

from __future__ import annotations

import math

import numpy
import pytest
import sympy

import tplimits as tp

SQRT = sympy.sqrt


def angles(x, y):
    """2 arcsin ⅓ − arcsin 4√2/9, times 2/π."""
    near = x / 3 + y * SQRT(8) / 3
    far = 4 * SQRT(2) / 9 * x + y * sympy.Rational(7, 9)
    return 2 * tp.avg(tp.sign(x) * tp.sign(near)) - tp.avg(tp.sign(x) * tp.sign(far))


def logarithms(x, y):
    """log 2 + log 3 − log 6."""
    return tp.log(2 * tp.avg(x * x)) + tp.log(3 * tp.avg(y * y)) - tp.log(6 * tp.avg(x * x))


def roots(x, y):
    """√(5 + 2√6) − √2 − √3."""
    return tp.sqrt(tp.avg((x * SQRT(2) + y * SQRT(3)) ** 2) + 2 * SQRT(6) * tp.avg(y * y)) - SQRT(2) - SQRT(3)


NUMBERS = {"angles": angles, "logarithms": logarithms, "roots": roots}
AT_ZERO = {
    "step": lambda s, u, W: tp.avg(tp.step(s) * u * u),
    "step of a ket": lambda s, u, W: tp.avg(tp.step(s * u) * u),
    "where": lambda s, u, W: tp.avg(tp.where(s, u * u, u**4)),
    "pole": lambda s, u, W: tp.avg(u * u) / s,
    "root": lambda s, u, W: tp.sqrt(s),
    "sign of an image": lambda s, u, W: tp.avg(tp.sign(W @ (u * s)) * u),
    "beside a ket": lambda s, u, W: tp.avg(tp.sign((1 + s) * u - u) * u),
    "of a pole": lambda s, u, W: tp.avg(tp.tanh(u / s)),
}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("place", AT_ZERO)
def test_closed_numbers_that_cancel_are_zero(number, place):
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector, u: tp.Vector):
        return AT_ZERO[place](NUMBERS[number](x, y), u, W)

    with pytest.raises(tp.TplimitsError, match=r"tends to 0|the argument of \w+ is 0|within its error"):
        tp.derive(program).evaluate()


@pytest.mark.parametrize("number", NUMBERS)
def test_they_are_zero_where_functions_are_continuous(number):
    """So is √n times a kink of one: a number that is no zero would be lost beside √n."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector, u: tp.Vector):
        s = NUMBERS[number](x, y)
        return s, tp.relu(s), tp.maximum(s, 0), tp.avg(u * u / (u * u + s * s)), 1 + tp.abs(s)

    limit = tp.derive(program)
    assert [limit.scalar(f"return[{i}]") for i in range(5)] == [0, 0, 0, 1, 1]


def test_the_fluctuation_of_a_number_that_cancels_is_seen():
    """√n·relu(s) is relu(S) for s = S/√n, and step(√n s) that of a normal variable: ½."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        s = angles(x, y)
        return tp.step(tp.sqrt(tp.n) * s), tp.sqrt(tp.n) * tp.relu(s), tp.n * s**2

    numbers = tp.derive(program).evaluate()
    step, kink, square = (numbers[f"return[{i}]"] for i in range(3))
    expected = _variance()
    assert step.value == pytest.approx(0.5)
    assert kink.value == pytest.approx(math.sqrt(expected / (2 * math.pi)), rel=1e-9)
    assert square.value == pytest.approx(expected, rel=1e-9)
    assert square.value != pytest.approx(5, rel=0.1)  # as if the two averages were independent


def _variance():
    """Of 2 sign(x) sign(near) − sign(x) sign(far), whose mean is 0, by Sheppard's formula."""
    near, far = numpy.array([1, math.sqrt(8)]) / 3, numpy.array([4 * math.sqrt(2), 7]) / 9
    return 5 - 4 * 2 / math.pi * math.asin(float(near @ far))


@pytest.mark.parametrize("number", [logarithms, roots])
def test_fluctuations_that_a_function_hides_are_refused(number):
    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        s = number(x, y)
        return tp.sqrt(tp.n) * tp.relu(s)

    with pytest.raises(tp.NoLimitError, match=r"tends to 0, where it has a kink or a jump|grows without bound"):
        tp.derive(program)


@pytest.mark.parametrize("number", [logarithms, roots])
def test_their_signs_are_those_of_normal_variables(number):
    """Whatever √n s is called: step(√n s) is a coin, as it is of networks."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        s = number(x, y)
        large = tp.sqrt(tp.n) * s
        return tp.step(large)

    found = tp.derive(program).evaluate()["return"]
    assert (found.value, found.variance) == (pytest.approx(0.5), pytest.approx(0.25))
    runs = [program.run(n=200, seed=seed)["return"] for seed in range(400)]
    assert abs(numpy.mean(runs) - 0.5) < 4 * math.sqrt(0.25 / 400)


IDENTITIES = {
    "double angle": lambda x: tp.sin(2 * x) - 2 * tp.sin(x) * tp.cos(x),
    "half of one": lambda x: tp.sin(x) ** 2 + tp.cos(x) ** 2 - 1,
}


@pytest.mark.parametrize("case", IDENTITIES)
@pytest.mark.parametrize("place", [lambda W, z: tp.step(z), lambda W, z: tp.sign(W @ z), lambda W, z: 1 / z])
def test_identities_between_functions_are_zero(case, place):
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        return tp.avg(place(W, IDENTITIES[case](x)))

    with pytest.raises(tp.TplimitsError, match=r"tends to 0|is 0: |within its error|has a pole where"):
        tp.derive(program).evaluate()


def of_neurons(x):
    """E y tanh(x + y) − E[1 − tanh²(x + y)] over y, 0 at every x by Stein's lemma."""
    b = tp.neuron("b")
    return tp.avg(x[b] * tp.tanh(x + x[b]) - (1 - tp.tanh(x + x[b]) ** 2), over=b)


MEANS = {
    "step": lambda W, x: tp.step(of_neurons(x)) * x * x,
    "step of a multiple": lambda W, x: tp.step(of_neurons(x) * (1 + x * x)) * x,
    "pole": lambda W, x: x / of_neurons(x),
    "root": lambda W, x: tp.sqrt(of_neurons(x)),
    "logarithm": lambda W, x: tp.log(tp.abs(of_neurons(x))),
    "image": lambda W, x: tp.sign(W @ of_neurons(x)) * (W @ x),
    "on one side of a kink": lambda W, x: tp.sign(tp.relu(x) + of_neurons(x)),
    "on one side of a jump": lambda W, x: tp.step(tp.where(x, x, of_neurons(x)) * (2 + x * x)),
    "on the side of the larger": lambda W, x: tp.sign(tp.maximum(x, of_neurons(x))),
}


@pytest.mark.parametrize("case", MEANS)
def test_means_over_another_neuron_that_are_zero_are_seen(case):
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        return tp.avg(MEANS[case](W, x))

    with pytest.raises(tp.EvaluationError, match=r"0 within its error|tends to 0"):
        tp.derive(program).evaluate()


@pytest.mark.sampling
def test_networks_do_not_settle_there():
    """step of the mean over another neuron is 0 or 1 at most neurons of a network, as its fluctuation has it."""
    generator = numpy.random.default_rng(5)
    for n in (40, 160):
        means = []
        for _ in range(100):
            x = generator.standard_normal(n)
            t = numpy.tanh(x[:, None] + x)
            means.append(((t @ x / n - 1 + (t * t).mean(axis=1) > 0) * x * x).mean())
        assert numpy.std(means) > 0.2


def test_means_over_another_neuron_that_are_no_zero_have_their_jump():
    @tp.program
    def program(x: tp.Vector):
        b = tp.neuron("b")
        return tp.avg(tp.step(tp.avg(x[b] * tp.tanh(x + x[b]), over=b)) * x * x)

    assert tp.derive(program).evaluate()["return"].value == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("beside", [tp.relu, lambda x: tp.where(x, x * x, 0 * x), lambda x: tp.maximum(x, -0.1)])
def test_beside_a_kink_they_have_their_jump_too(beside):
    """E y tanh(x + y) = E[1 − tanh²(x + y)] > 0, near ⅗ at x = 0."""

    @tp.program
    def program(x: tp.Vector):
        b = tp.neuron("b")
        return tp.avg(tp.sign(beside(x) + 0.2 + tp.avg(x[b] * tp.tanh(x + x[b]), over=b)) * x * x)

    assert tp.derive(program).evaluate()["return"].value == pytest.approx(1, rel=1e-9)


def test_kinks_inside_of_a_mean_are_on_both_sides():
    """E sign(x u) u = sign(x) E|u|, zero at no x, though E u = 0 for u = y tanh z."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector, z: tp.Vector):
        b, u = tp.neuron("b"), y * tp.tanh(z)
        return tp.avg(tp.sign(tp.avg(tp.sign(x * u[b]) * u[b], over=b)) ** 2)

    assert tp.derive(program).evaluate()["return"].value == pytest.approx(1, rel=1e-6)


COINCIDING = {
    "power": lambda x, y, b, c: tp.abs(x - x[b]) ** (-0.25),
    "logarithm": lambda x, y, b, c: tp.log(tp.abs(x - x[b])),
    "removable": lambda x, y, b, c: tp.tanh(x - x[b]) / (x - x[b]),
    "no number beside a zero": lambda x, y, b, c: (x - x[b]) * tp.log(tp.abs(x - x[b])),
    "multiplied out": lambda x, y, b, c: tp.abs((x + 1) ** 2 - x[b] ** 2 - 2 * x[b] - 1) ** (-0.2),
    "determinant": lambda x, y, b, c: tp.abs(x * y[b] - y * x[b]) ** (-0.2),
    "two others": lambda x, y, b, c: tp.abs(x[b] - x[c]) ** (-0.2) + x,
    "all three": lambda x, y, b, c: tp.abs(x + x[b] - 2 * x[c]) ** (-0.2),
}


@pytest.mark.parametrize("case", COINCIDING)
def test_an_average_over_neurons_holds_the_neuron_itself(case):
    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        b, c = tp.neuron("b"), tp.neuron("c")
        over = (b, c) if case in ("two others", "all three") else b
        return tp.avg(tp.avg(COINCIDING[case](x, y, b, c), over=over))

    with pytest.raises(tp.NoLimitError, match="not finite at any width: an average over other neurons holds"):
        tp.derive(program)


#: E|√2 g|^p, and what is finite where neurons coincide
APART = {
    "of two vectors": (
        lambda x, y, b: tp.abs(x - y[b]) ** (-0.25),
        2**-0.25 * math.gamma(0.375) / math.sqrt(math.pi),
    ),
    "of a sum": (lambda x, y, b: tp.abs(x + x[b]) ** (-0.25), 2**-0.25 * math.gamma(0.375) / math.sqrt(math.pi)),
    "in an exponential": (lambda x, y, b: tp.exp(-1 / (x - x[b]) ** 2), math.exp(-1)),
}


@pytest.mark.parametrize("case", APART)
def test_poles_that_no_network_meets_are_left(case):
    function, expected = APART[case]

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        b = tp.neuron("b")
        return tp.avg(tp.avg(function(x, y, b), over=b))

    assert tp.derive(program).evaluate()["return"].value == pytest.approx(expected, rel=1e-8)


def _kernel_at(root, zero):
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], Y: tp.Vector["d"], v: tp.Vector):
        x, y = tp.sum(U * ξ, over="d"), tp.sum(Y * ξ, over="d")
        return v * root(x, zero(x, y))

    return tp.derive(network, tp.Kernels(train=("v",))).evaluate([[0.6, 0.8]]).nngp.item()


def _of_quotients(x, y):
    """E x²/(1 + x²) + E 1/(1 + y²) − 1, which is 0 and 10⁻¹⁶ in doubles."""
    return tp.avg(x * x / (1 + x * x)) + tp.avg(1 / (1 + y * y)) - 1


def _independent(x, y):
    """E x y, which is seen to be 0."""
    return tp.avg(x * y)


@pytest.mark.parametrize("power", [0.25, 0.1])
def test_steep_roots_of_zeros_in_disguise_are_refused_in_kernels(power):
    """E |s x|^(1/5) was 6·10⁻⁴ ± 10⁻¹¹ for 0."""
    with pytest.raises(tp.EvaluationError, match=r"is known to .* and no better"):
        _kernel_at(lambda x, s: tp.abs(s * x) ** power, _of_quotients)


def test_roots_of_zeros_that_are_seen_or_that_lose_few_digits_are_left():
    assert _kernel_at(lambda x, s: tp.abs(s * x) ** 0.1, _independent) == 0
    assert abs(_kernel_at(lambda x, s: tp.sqrt(tp.abs(s * x)) + x, _of_quotients) - 1) < 1e-7
    assert _kernel_at(lambda x, s: x * s**0.25, lambda x, y: tp.avg(x * x)) == pytest.approx(1, rel=1e-12)


#: sums of kinks that are 0 on a null set alone, and what their sign is on average times max(x, 0), by polar coordinates
NULL_SETS = {
    "moduli": (lambda x, y: tp.abs(x) - tp.abs(y), 0.5 * (2**0.5 - 1) * (2 / numpy.pi) ** 0.5),
    "one modulus": (lambda x, y: tp.relu(x) + tp.relu(-x) - 1, (2 * numpy.exp(-0.5) - 1) / (2 * numpy.pi) ** 0.5),
    "the larger and the smaller": (lambda x, y: tp.maximum(x, y) + tp.minimum(x, y), 1 / (2 * numpy.pi**0.5)),
}


@pytest.mark.parametrize("case", NULL_SETS)
def test_kinks_that_add_up_to_nothing_on_no_side_are_seen_to_have_a_sign(case):
    of, expected = NULL_SETS[case]

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.sign(of(x, y)) * tp.relu(x))

    limit = tp.derive(program)
    assert "left to evaluate" not in str(limit)
    found = limit.evaluate()["return"]
    assert found.value == pytest.approx(expected, abs=1e-8) and abs(expected) > 0.05


@pytest.mark.parametrize(
    "of",
    [
        lambda x, y, s: tp.relu(x) * s - tp.relu(y) * s,
        lambda x, y, s: tp.maximum(x, 0) * s + tp.minimum(x, 0) - x,
        lambda x, y, s: tp.abs(tp.relu(x) - tp.relu(y)) * s - tp.relu(y),
    ],
)
def test_kinks_that_add_up_to_nothing_on_a_side_are_refused_there(of):
    """Where both are 0, or with s → 1 everywhere: networks are on both sides, or at 0; the limit shows neither."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector, a: tp.Vector):
        s = tp.avg(a * a)
        h = of(x, y, s) + (s - 1) * tp.relu(-x) * tp.relu(-y)
        return tp.avg(tp.sign(h) * x**2)

    with pytest.raises(tp.TplimitsError, match="jump"):
        tp.derive(program).evaluate()
