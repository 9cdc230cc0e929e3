"""Jumps, poles and roots at zeros in disguise: refused at every place where a scalar may stand, and only there."""

from __future__ import annotations

import numpy
import pytest
import sympy

import tplimits as tp


def disguised(x):
    """E x tanh x − E[1 − tanh² x], which is 0 by Stein's lemma."""
    return tp.avg(x * tp.tanh(x)) - tp.avg(1 - tp.tanh(x) ** 2)


def one(x):
    """The same as a quotient, which is 1."""
    return tp.avg(x * tp.tanh(x)) / tp.avg(1 - tp.tanh(x) ** 2)


AT_ZERO = {
    "step of a ket": lambda W, h, u: tp.avg(tp.step(h - one(h) * h) * tp.sign(h)),
    "step of a ket, permuted": lambda W, h, u: tp.avg(tp.sign(h) * tp.step(one(h) * h - h)),
    "step of another ket": lambda W, h, u: tp.avg(tp.step(u * disguised(h)) * u),
    "step of a mean that is not zero": lambda W, h, u: tp.avg(tp.step((u + 2) * disguised(h)) * u),
    "where": lambda W, h, u: tp.avg(tp.where(disguised(h) * u, u * u, 0 * u)),
    "sign of an image": lambda W, h, u: tp.avg(tp.sign(W @ (u * disguised(h))) * u),
    "sign of an image of a transpose": lambda W, h, u: tp.avg(tp.sign(W.T @ (u - one(h) * u)) ** 2),
    "sign of a product of images": lambda W, h, u: tp.avg(tp.sign((W @ u) * (W @ (u * disguised(h)))) ** 2),
    "sign of a sum of kinks": lambda W, h, u: tp.avg(tp.sign(tp.relu(u) + disguised(h) * h) * u),
    "sign of a fluctuation": lambda W, h, u: tp.sign(tp.sqrt(tp.n) * tp.avg(u * (W @ h) * disguised(h))),
    "pole beside zero": lambda W, h, u: tp.avg(u) / disguised(h),
    "pole of a ket": lambda W, h, u: tp.avg(u / (h - one(h) * h)),
    "logarithm": lambda W, h, u: tp.avg(u) * tp.log(disguised(h)),
    "root": lambda W, h, u: tp.sqrt(disguised(h)),
    "root of a ket": lambda W, h, u: tp.avg(tp.sqrt(disguised(h) * u * u)),
    "arcsine": lambda W, h, u: tp.elementwise(sympy.asin)(one(h)),
}


@pytest.mark.parametrize("case", AT_ZERO)
def test_zeros_in_disguise_are_refused(case):
    @tp.program
    def program(W: tp.Matrix, V: tp.Matrix, x: tp.Vector, u: tp.Vector):
        return AT_ZERO[case](W, V @ x, u), tp.avg(u * u)

    limit = tp.derive(program)
    with pytest.raises(tp.EvaluationError, match=r"(0 within its error|tends to 0).*only=\('return\[1\]',\)"):
        limit.evaluate()
    assert limit.evaluate(only=["return[1]"])["return[1]"].value == 1


@pytest.mark.parametrize("slope", [0.2, sympy.Rational(1, 5)])
def test_a_zero_that_is_split_between_names_is_seen(slope):
    """E k sin k − E cos k · E k² with a variance that is a sum: one half of the difference gets a name."""

    @tp.program
    def program(W: tp.Matrix, y: tp.Vector):
        leaky, b = tp.leaky_relu(y, slope), tp.neuron("b")
        signs = tp.avg(tp.sign(leaky * leaky[b]) * leaky[b], over=b)
        k = W @ tp.maximum(signs, y)
        s = tp.avg(k * tp.sin(k)) - tp.avg(tp.cos(k)) * tp.avg(k**2)
        scaled = k * tp.sqrt(s)
        return tp.avg(scaled * scaled)

    with pytest.raises((tp.NoLimitError, tp.EvaluationError), match="stands under"):
        tp.derive(program).evaluate()


ROOT = float(sympy.sqrt(2 / sympy.pi))

#: the same places with a number that is not zero: the right values
BESIDE_ZERO = {
    "step of a ket": (lambda h, u: tp.avg(tp.step(h - 2 * one(h) * h) * tp.sign(h)), -0.5),
    "step of another ket": (
        lambda h, u: tp.avg(tp.step(u * (disguised(h) + 1)) * u),
        float(1 / sympy.sqrt(2 * sympy.pi)),
    ),
    "step with a mean": (lambda h, u: tp.avg(tp.step(u + one(h))), float((1 + sympy.erf(1 / sympy.sqrt(2))) / 2)),
    "flat where it is zero": (lambda h, u: tp.avg(tp.sign(tp.relu(u))), 0.5),
    "pole": (lambda h, u: tp.avg(u * u) / one(h), 1.0),
    "continuous": (lambda h, u: tp.avg(tp.relu(u * disguised(h))), 0.0),
    "root of squares": (lambda h, u: tp.sqrt(disguised(h) ** 2), 0.0),
}


@pytest.mark.parametrize("case", BESIDE_ZERO)
def test_what_is_no_zero_or_continuous_there_has_its_value(case):
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, u: tp.Vector):
        return BESIDE_ZERO[case][0](W @ x, u)

    assert tp.derive(program).evaluate()["return"].value == pytest.approx(BESIDE_ZERO[case][1], abs=1e-12)


def test_exact_zeros_are_refused_at_once():
    def of_part(u: tp.Vector, v: tp.Vector):
        return tp.avg(tp.sign(tp.relu(u) + tp.avg(u) * v))

    def beside_zero(u: tp.Vector, v: tp.Vector):
        return tp.avg(u) / tp.avg(v)

    with pytest.raises(tp.NoLimitError, match="tends to 0"):
        tp.derive(tp.program(beside_zero))
    with pytest.raises(tp.EvaluationError, match="0 within its error"):
        tp.derive(tp.program(of_part)).evaluate()


def test_data_that_cancel_up_to_rounding_are_zero():
    def program(x: tp.Vector):
        weights = tp.constant(numpy.array([0.1, 0.2, -0.3]), axes=("i",))
        return tp.step(tp.sum(weights * tp.avg(x * x), over="i"))

    with pytest.raises(tp.NoLimitError, match="jump"):
        tp.derive(tp.program(program))


def test_given_scalars_are_where_they_are_at_every_width():
    @tp.program
    def program(x: tp.Vector, c: tp.Scalar = 0):
        return tp.avg(x * x) * tp.step(c), tp.avg(x * x) * tp.step(c + 1)

    numbers = tp.derive(program).evaluate()
    assert [n.value for n in numbers.values()] == [0, 1]


def test_constants_decide_when_they_are_known():
    @tp.program
    def program(x: tp.Vector, *, c):
        return tp.avg(tp.step(x * (tp.avg(x * tp.tanh(x)) - c * tp.avg(1 - tp.tanh(x) ** 2))) * x)

    limit = tp.derive(program)
    assert limit.evaluate(c=0)["return"].value == pytest.approx(float(1 / sympy.sqrt(2 * sympy.pi)))
    assert limit.evaluate(c=2)["return"].value == pytest.approx(-float(1 / sympy.sqrt(2 * sympy.pi)))
    with pytest.raises(tp.EvaluationError, match="0 within its error"):
        limit.evaluate(c=1)


@pytest.mark.sampling
def test_networks_do_not_settle_where_a_zero_in_disguise_is_refused():
    """At any width step((1 − r_n) h) sign(h) averages to about ±½ with the sign of 1 − r_n: two values, no limit."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        return tp.avg(tp.step(h - one(h) * h) * tp.sign(h))

    for n in (50, 400):
        drawn = [program.run(n, seed=seed)["return"] for seed in range(40)]
        assert all(abs(abs(value) - 0.5) < 5 * 0.5 / n**0.5 for value in drawn)
        assert 5 < sum(value > 0 for value in drawn) < 35


@pytest.mark.sampling
def test_kinks_and_jumps_at_zero_see_the_fluctuation():
    """√n·relu(S/√n) is relu(S), not 0; the right variance is accepted at finite width, that of S itself rejected."""

    @tp.program
    def program(u: tp.Vector, v: tp.Vector):
        return tp.relu(tp.avg(u * v)) * tp.sqrt(tp.n)

    limit = tp.derive(program)
    number = limit.evaluate()["return"]
    assert number.value == pytest.approx(float(1 / sympy.sqrt(2 * sympy.pi)))
    assert number.variance == pytest.approx(float(sympy.Rational(1, 2) - 1 / (2 * sympy.pi)))
    widths, draws = (64, 128, 256), (4000, 4000, 4000)
    assert tp.check(limit, widths, draws, seed=0, level=1e-3, progress=False).accepted
    assert not tp.check(limit, widths, draws, seed=0, level=1e-3, claims={"return": 0.5}, progress=False).accepted


SCALED = {
    "abs": (lambda u, v: tp.abs(tp.avg(u * v)) * tp.sqrt(tp.n), ROOT),
    "sign": (lambda u, v: tp.avg(u * v) * tp.sqrt(tp.n) * tp.sign(tp.avg(u * v)), ROOT),
    "sum with a mean": (lambda u, v: tp.sqrt(tp.n) * tp.relu(tp.avg(u * u) - 1 + tp.avg(u * v)), ROOT / 2 * 3**0.5),
    "tanh of a kink": (lambda u, v: tp.sqrt(tp.n) * tp.tanh(tp.relu(tp.avg(u * v))), ROOT / 2),
    "square": (lambda u, v: tp.n * tp.relu(tp.avg(u * v)) ** 2, 0.5),
    "maximum": (lambda u, v: tp.sqrt(tp.n) * tp.maximum(tp.avg(u * v), 0 * tp.avg(u)), ROOT / 2),
    "maximum with 1": (lambda u, v: tp.sqrt(tp.n) * (tp.maximum(tp.avg(u * u), 1) - 1), ROOT / 2**0.5),
    "minimum": (lambda u, v: tp.sqrt(tp.n) * (tp.minimum(tp.avg(u * u), 1 + tp.avg(u * v)) - 1), -ROOT / 2 * 3**0.5),
    "clip": (lambda u, v: tp.sqrt(tp.n) * (tp.clip(tp.avg(u * u), 0, 1) - 1), -ROOT / 2**0.5),
    "where": (lambda u, v: tp.sqrt(tp.n) * tp.where(tp.avg(u * v), tp.avg(u * v), 3 * tp.avg(u * v)), -ROOT),
    "sign of a fluctuation": (lambda u, v: tp.sign(tp.sqrt(tp.n) * tp.avg(u * v)) ** 2, 1.0),
    "step of a large argument": (lambda u, v: tp.step(tp.sqrt(tp.n) * (tp.avg(u * u) + tp.avg(u * v))), 1.0),
    "kink of a function": (lambda u, v: tp.sqrt(tp.n) * tp.relu(tp.tanh(tp.avg(u * v))), ROOT / 2),
    "kink of a sum": (lambda u, v: tp.sqrt(tp.n) * tp.relu(tp.exp(tp.avg(u * v)) - 1), ROOT / 2),
    "step of a function": (lambda u, v: tp.step(tp.tanh(tp.avg(u * v) / tp.sqrt(tp.n))), 0.5),
    "sign of a function": (lambda u, v: tp.sqrt(tp.n) * tp.avg(u * v) * tp.sign(tp.tanh(tp.avg(u * v))), ROOT),
    "small argument": (lambda u, v: tp.avg(tp.sign(u / tp.sqrt(tp.n)) * u), ROOT),
}


@pytest.mark.parametrize("case", SCALED)
def test_powers_of_n_come_out_of_kinks_and_jumps(case):
    @tp.program
    def program(u: tp.Vector, v: tp.Vector):
        return SCALED[case][0](u, v)

    assert tp.derive(program).evaluate()["return"].value == pytest.approx(SCALED[case][1], abs=1e-12)


def test_jumps_without_a_power_of_n_are_not_expanded():
    @tp.program
    def program(u: tp.Vector, v: tp.Vector):
        return tp.step(tp.tanh(tp.avg(u * v)))

    with pytest.raises(tp.NoLimitError, match="lands on a jump"):
        tp.derive(program)


def test_a_gram_that_is_singular_in_disguise_adds_no_direction():
    """z2 = W(a + s·b) with s → 0 is z1: the dot part of W.T sign(z1 + z2 + …) is E[|z1|]·a, by Stein's form."""

    @tp.program
    def program(W: tp.Matrix, a: tp.Vector, b: tp.Vector):
        z1, z2 = W @ a, W @ (a + b * disguised(b))
        return tp.avg(a * (W.T @ tp.sign(z2 + z1 + tp.tanh(z1))))

    @tp.program
    def apart(W: tp.Matrix, a: tp.Vector, b: tp.Vector):
        z1, z2 = W @ a, W @ (a + b / 10_000)
        return tp.avg(b * (W.T @ tp.sign(10_000 * (z2 - z1))))

    assert tp.derive(program).evaluate()["return"].value == pytest.approx(ROOT, abs=1e-12)
    assert tp.derive(apart).evaluate()["return"].value == pytest.approx(ROOT, abs=1e-7)  # a small direction is one


def test_a_refused_root_is_shown_as_it_was_written():
    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        s = tp.avg(x * y)
        return x * tp.sqrt(s)

    with pytest.raises(tp.NoLimitError, match=r"under the root in `sqrt\(s\)` tends to 0 and is negative"):
        tp.derive(program)


def test_what_overflows_beside_a_zero_in_disguise_is_refused_without_a_warning():
    @tp.program
    def program(y: tp.Vector, V: tp.Matrix, x: tp.Vector):
        h = V @ x
        s = tp.avg(x * (V.T @ tp.tanh(h))) - tp.avg(1 - tp.tanh(h) ** 2) * tp.avg(x**2)
        z = y * tp.exp(1 / s)
        return tp.avg(tp.tanh(z) / z)

    with pytest.raises(tp.EvaluationError, match="`1/s` is not finite at the limit"):
        tp.derive(program).evaluate()


@pytest.mark.long
@pytest.mark.parametrize("vanishes", [True, False])
def test_long_factors_are_read_beside_a_zero_in_disguise(vanishes):
    """Named because they are long, they have the values of what they stand for."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        y = tp.sqrt(60 + sum(tp.cos(k * h) / (k + tp.exp(-h * h)) for k in range(1, 30)))
        z = tp.tanh(y * h) + 2
        return tp.avg(tp.sign((disguised(h) if vanishes else one(h) + 1) * z * y) ** 2)

    if vanishes:
        with pytest.raises(tp.EvaluationError, match=r"0 within its error|tends to 0"):
            tp.derive(program).evaluate()
    else:
        assert tp.derive(program).evaluate()["return"].value == pytest.approx(1)


@pytest.mark.parametrize("power", [-0.5, -1])
@pytest.mark.parametrize("inside", [lambda s, x: tp.step(s), lambda s, x: tp.avg(tp.step(s) * x * x)])
def test_a_scalar_that_is_off_its_limit_at_every_width_is_not_at_the_jump(inside, power):
    """step(1/√n) is 1 at every width, and step at its limit is 0."""

    @tp.program
    def shifted(x: tp.Vector, c: tp.Scalar = 1):
        s = c - 1 + tp.n ** sympy.Rational(power)
        return inside(s, x)

    with pytest.raises(tp.NoLimitError, match="the limit lands on a jump of `step`"):
        tp.derive(shifted)


@pytest.mark.parametrize(
    "inside",
    [
        lambda c, x, W, small: tp.step(c - 1 + small),
        lambda c, x, W, small: tp.avg(tp.step(c - 1 + small) * x * x),
        lambda c, x, W, small: tp.avg(tp.where(W @ (0 * x) + small, x * x, 0)),
    ],
)
@pytest.mark.parametrize("power", [-0.5, -1])
def test_nor_is_it_without_a_name(inside, power):
    """Networks have step(1/√n) = 1, and the jump at the limit of what is exact says 0."""

    @tp.program
    def shifted(W: tp.Matrix, x: tp.Vector, c: tp.Scalar = 1):
        return inside(c, x, W, tp.n ** sympy.Rational(power))

    assert shifted.run(n=400, seed=1)["return"] == pytest.approx(1, abs=0.3)
    with pytest.raises(tp.NoLimitError, match=r"the argument of `step` tends to 0|the argument of `where` tends to 0"):
        tp.derive(shifted)


@pytest.mark.parametrize("shift", [-1, 1])
def test_signs_are_those_of_what_runs_at_finite_width(shift):
    """relu(y) − 1/√n is negative at finite width, though its limit is not: the root of its mean is no number there."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        z = tp.relu(y) + shift / tp.sqrt(tp.n)
        return tp.sqrt(tp.avg(z * tp.step(-y)))

    with numpy.errstate(invalid="ignore"):
        finite = program.run(n=10_000, seed=0)["return"]
    if shift > 0:  # half of all y are negative: (2√n)^(−1/2)
        assert finite == pytest.approx(0.5**0.5 / 10, rel=0.05)
        assert tp.derive(program).evaluate()["return"].value == 0
    else:
        assert numpy.isnan(finite)
        with pytest.raises(tp.NoLimitError, match=r"under the root .* is negative at finite width"):
            tp.derive(program)


@pytest.mark.parametrize(("small", "finite"), [(-1, False), (1, True)])
def test_what_is_negative_at_finite_width_alone_has_no_root(small, finite):
    """relu(θ) − 1/√n with θ → 0 is negative for half of all networks, and relu(θ) never."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        return tp.sqrt(tp.relu(tp.avg(x * y)) + small / tp.sqrt(tp.n))

    with numpy.errstate(invalid="ignore"):
        runs = [program.run(n=10_000, seed=seed)["return"] for seed in range(8)]
    assert numpy.isfinite(runs).all() == finite
    if finite:
        assert tp.derive(program).evaluate()["return"].value == 0
    else:
        with pytest.raises(tp.NoLimitError, match=r"under the root .* is negative at finite width"):
            tp.derive(program)
