"""Decimal constants beside a zero: 0.1 + 0.2 − 0.3 is rounding, and no engine reads a sign off it."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

#: scalars of a vector h with E h² = 1 that are zero but for the rounding of the constants in them
ROUNDED = {
    "tenths": lambda h, a: 0.1 * tp.avg(h * h) + 0.2 * tp.avg(a * a) - 0.3,
    "a third": lambda h, a: tp.avg(h * h) / 3 - 1 / 3 * tp.avg(a * a),
    "1/√(2π)": lambda h, a: tp.avg(tp.relu(h)) - 0.3989422804014327,
    "√(2/π)": lambda h, a: 0.7978845608028654 - tp.avg(tp.abs(h)),
    "root of a decimal": lambda h, a: tp.avg(tp.relu(h)) - 1 / tp.sqrt(6.283185307179586),
}
SINGULAR = {
    "step": (tp.step, "lands on a jump"),
    "sign": (tp.sign, "lands on a jump"),
    "1/s": (lambda s: 1 / s, "not finite at the limit"),
    "log": (tp.log, "not finite at the limit"),
    "√s": (tp.sqrt, "stands under"),
}


def of_width(f, s):
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, a: tp.Vector):
        return tp.avg(x * x * f(s(W @ x, a)))

    return tp.derive(program).evaluate()["return"].value


def of_kernels(f, s):
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, a: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * x * f(s(W @ x, a))

    return tp.derive(network, tp.Kernels()).evaluate(np.array([[0.6, 0.8]])).nngp.item()


@pytest.mark.parametrize("engine", [of_width, of_kernels])
@pytest.mark.parametrize("scalar", ROUNDED)
@pytest.mark.parametrize("function", SINGULAR)
def test_no_engine_reads_the_sign_of_rounding(engine, scalar, function):
    f, message = SINGULAR[function]
    with pytest.raises(tp.TplimitsError, match=message):
        engine(f, ROUNDED[scalar])


@pytest.mark.parametrize("engine", [of_width, of_kernels])
@pytest.mark.parametrize("scalar", ROUNDED)
def test_what_is_further_away_has_a_value(engine, scalar):
    assert engine(tp.step, lambda h, a: ROUNDED[scalar](h, a) + 1e-6) == pytest.approx(1)
    assert engine(tp.step, lambda h, a: ROUNDED[scalar](h, a) - 1e-6) == pytest.approx(0)


@pytest.mark.parametrize("engine", [of_width, of_kernels])
def test_products_with_one_vector_are_taken_together(engine):
    """avg(relu h)·h − 0.39894…·h: neither term is rounding, their sum is; networks have either sign of it."""
    with pytest.raises(tp.TplimitsError, match="lands on a jump"):
        engine(lambda vector: tp.step(vector), lambda h, a: tp.avg(tp.relu(h)) * h - 0.3989422804014327 * h)


#: a sum of scalars that is 0 but for the rounding of 1/3, 1.9e-17
THIRDS = {
    "inside": lambda x, a: x * (tp.avg(a**4) / 9 - 1 / 3 * tp.avg(a**2) ** 2),
    "of a closed mean": lambda x, a: x * (tp.avg(tp.relu(a)) - 0.3989422804014327),
    "by a name": lambda x, a: x * (tp.avg(a**4) / 9 - 1 / 3 * tp.avg(a**2) ** 2).named("s"),
}


@pytest.mark.parametrize("image", [False, True])
@pytest.mark.parametrize("product", THIRDS)
def test_a_vector_times_rounding_has_no_sign(product, image):
    """⟨x| sign(s x)⟩ = ±√(2/π) in networks, by the sign of s: the one of the rounding had been printed."""

    def argument(W, x, a):
        moved = THIRDS[product](x, a)
        return (W @ x, W @ moved) if image else (x, moved)

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, a: tp.Vector):
        y, z = argument(W, x, a)
        return tp.avg(y * tp.sign(z))

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, a: tp.Vector):
        y, z = argument(W, tp.sum(U * ξ, over="d"), a)
        return v * (tp.sign(z) + tp.sign(y))

    with pytest.raises(tp.TplimitsError, match="lands on a jump"):
        tp.derive(program).evaluate()
    with pytest.raises(tp.TplimitsError, match="lands on a jump"):
        tp.derive(network, tp.Kernels(train=())).evaluate(np.array([[0.6, 0.8]]))


def test_what_is_small_is_not_rounding():
    @tp.program
    def program(x: tp.Vector, a: tp.Vector):
        s = 1e-9 * (tp.avg(a**4) / 9 - 1 / 6 * tp.avg(a**2) ** 2)
        return tp.avg(x * tp.sign(x * s))

    assert tp.derive(program).evaluate()["return"].value == pytest.approx(np.sqrt(2 / np.pi))


@pytest.mark.parametrize("numbers", [[0.1, 0.2, -0.3], [0.1, 0.2, 0.3]])
def test_sums_of_data_that_stand_inside_a_function_are_rounding_as_well(numbers):
    """0.1 a + 0.2 a − 0.3 a has either sign or none in networks; 0.6 a has one."""

    @tp.program
    def program(x: tp.Vector):
        return tp.step(tp.sum(tp.constant(np.array(numbers), axes=("i",)) * tp.avg(x * x), over="i"))

    runs = {float(program.run(n=64, seed=seed)["return"]) for seed in range(20)}
    if sum(numbers) > 1e-3:
        assert tp.derive(program).evaluate()["return"].value == 1
        assert runs == {1.0}
    else:
        assert runs == {0.0, 1.0}
        with pytest.raises(tp.NoLimitError, match="lands on a jump"):
            tp.derive(program)


#: 0.1 a + 0.2 b − 0.3 c of averages with one mean, as a user writes it: what is left of the mean is 5.6e-17
CENTRED = {
    "in one line": lambda a, b, c: tp.sqrt(tp.n) * (0.1 * tp.avg(a) + 0.2 * tp.avg(b) - 0.3 * tp.avg(c)),
    "by a name": lambda a, b, c: tp.sqrt(tp.n) * (0.1 * tp.avg(a) + 0.2 * tp.avg(b) - 0.3 * tp.avg(c)).named("r"),
    "the width inside": lambda a, b, c: (
        tp.sqrt(4 * tp.n) / 2 * 0.1 * tp.avg(a) + 0.2 * tp.avg(b) * tp.sqrt(tp.n) - tp.sqrt(tp.n) * 0.3 * tp.avg(c)
    ),
    "in a function": lambda a, b, c: tp.sqrt(tp.n) * tp.tanh(0.1 * tp.avg(a) + 0.2 * tp.avg(b) - 0.3 * tp.avg(c)),
}


@pytest.mark.parametrize("case", CENTRED)
def test_means_that_cancel_but_for_rounding_leave_a_fluctuation(case):
    """Its variance is 0.14 times that of one term, as in networks; kernels had 0 for it, and width limits diverged."""
    squares = lambda x: x**2  # noqa: E731

    @tp.program
    def program(x: tp.Vector, y: tp.Vector, z: tp.Vector):
        return CENTRED[case](*map(squares, (x, y, z)))

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], x: tp.Vector, y: tp.Vector, z: tp.Vector, v: tp.Vector):
        return v * tp.sum(U * ξ, over="d") * CENTRED[case](*map(squares, (x, y, z)))

    found = tp.derive(program).evaluate()["return"].variance
    assert found == pytest.approx(0.28, abs=1e-12)
    g = np.random.default_rng(0).normal(size=(3, 4000, 500)) ** 2
    networks = np.var(np.sqrt(500) * np.tensordot([0.1, 0.2, -0.3], g.mean(axis=2), axes=1))
    assert abs(networks - found) < 0.04 < abs(networks - 0.2)
    kernel = tp.derive(network, tp.Kernels(train=("v",))).sample(np.array([[0.6, 0.8]]), draws=4000, seed=0).nngp
    assert abs(np.mean(kernel) - 0.28) < 0.04


def test_means_that_do_not_cancel_grow_with_the_width():
    """0.1 + 0.2 − 0.3000001, and 1e-17 alone, are no rounding."""

    @tp.program
    def sum_of_three(x: tp.Vector, y: tp.Vector, z: tp.Vector):
        return tp.sqrt(tp.n) * (0.1 * tp.avg(x**2) + 0.2 * tp.avg(y**2) - 0.3000001 * tp.avg(z**2))

    @tp.program
    def small(x: tp.Vector):
        return tp.sqrt(tp.n) * 1e-17 * tp.avg(x**2)

    for program in (sum_of_three, small):
        with pytest.raises(tp.NoLimitError, match="grows without bound"):
            tp.derive(program)
