"""Removable poles at scalars that tend to zero: one value on width, kernels and depth; poles that stay are refused."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

#: a function of s → 0, and what it tends to
CONTINUED = {
    "log(1 + s)/s": (lambda s: tp.log(1 + s) / s, 1),
    "(exp s − 1)/s": (lambda s: (tp.exp(s) - 1) / s, 1),
    "(1 − cos s)/s²": (lambda s: (1 - tp.cos(s)) / s**2, 0.5),
    "sin(2s)/s": (lambda s: tp.sin(2 * s) / s, 2),
    "s/(s + s²)": (lambda s: s / (s + s**2), 1),
    "(tanh s − s)/s³": (lambda s: (tp.tanh(s) - s) / s**3, -1 / 3),
    "((exp s − 1)/s)²": (lambda s: ((tp.exp(s) - 1) / s) ** 2, 1),
    "s/tanh s": (lambda s: s / tp.tanh(s), 1),
    # one inside of another: 1/s² asks for more of sin(s)/s than its limit
    "(exp(sin(s)/s − 1) − 1)/s²": (lambda s: (tp.exp(tp.sin(s) / s - 1) - 1) / s**2, -1 / 6),
    "((1 − cos s)/s)/s": (lambda s: (1 / s - tp.cos(s) / s) / s, 1 / 2),
    "s²/(sin(s)/s − 1)": (lambda s: s**2 / (tp.sin(s) / s - 1), -6),
    "log(sin(s)/s)/s²": (lambda s: tp.log(tp.sin(s) / s) / s**2, -1 / 6),
    "cos((exp s − 1)/s)·sin(s)/s": (lambda s: tp.cos((tp.exp(s) - 1) / s) * tp.sin(s) / s, np.cos(1)),
    "1 + s³/|s|": (lambda s: 1 + s**3 / tp.abs(s), 1),
}
STAY = {
    "1/s": lambda s: 1 / s,
    "exp(s)/s": lambda s: tp.exp(s) / s,
    "relu(s)/s": lambda s: tp.relu(s) / s,
    "|s|/s": lambda s: tp.abs(s) / s,
    "√s²/s": lambda s: tp.sqrt(s * s) / s,
    "(1 − cos s)/s³": lambda s: (1 - tp.cos(s)) / s**3,
    "tanh(1/s)": lambda s: tp.tanh(1 / s),
    "log(s)·s": lambda s: tp.log(s) * s,
    "s log|s|/sin s": lambda s: s * tp.log(tp.abs(s)) / tp.sin(s),
    "sin(s)/√s": lambda s: tp.sin(s) / tp.sqrt(s),
    "|s| sin(s)/s³": lambda s: tp.abs(s) * tp.sin(s) / s**3,
}
#: logarithms that a power is stronger than
WEAK = {
    "s log|s|": lambda s: s * tp.log(tp.abs(s)),
    "s² log s²": lambda s: s**2 * tp.log(s**2),
    "|s| log²|s|": lambda s: tp.abs(s) * tp.log(tp.abs(s)) ** 2,
    "s log(1 − cos s)": lambda s: s * tp.log(1 - tp.cos(s)),
}
X = np.array([[0.6, 0.8]])


def of_width(f):
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        return tp.avg(x * x * f(tp.avg(x * (W @ x))))

    return program


def of_kernels(f):
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * x * f(tp.avg(x * (W @ x)))

    return network


@pytest.mark.parametrize("case", CONTINUED)
def test_a_quotient_tends_to_its_continuation(case):
    f, value = CONTINUED[case]
    limit = tp.derive(of_width(f))
    assert limit.evaluate()["return"].value == pytest.approx(value, rel=1e-12)
    kernels = tp.derive(of_kernels(f), tp.Kernels())
    assert kernels.evaluate(X).nngp.item() == pytest.approx(value**2, rel=1e-12)
    network = of_width(f).run(n=1000, seed=3)["return"]
    assert abs(network - value) < 0.2 * abs(value)


def test_a_pole_in_an_activation_beside_a_pole():
    """tanh(h sin(s)/s) − tanh(h) = −s² h sech²(h)/6 + …"""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        s = tp.avg(h)
        return tp.avg(h * (tp.tanh(h * tp.sin(s) / s) - tp.tanh(h)) / s**2)

    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    wanted = -(weights @ (nodes / np.cosh(nodes)) ** 2) / np.sqrt(2 * np.pi) / 6
    assert tp.derive(program).evaluate()["return"].value == pytest.approx(wanted, rel=1e-8)


#: functions of a scalar that tends to 1
AT_ONE = {
    "log(s)/(s − 1)": (lambda s: tp.log(s) / (s - 1), 1),
    "(s³ − 1)/(s² − 1)": (lambda s: (s**3 - 1) / (s**2 - 1), 3 / 2),
    "1/(s − 1) − 2/(s² − 1)": (lambda s: 1 / (s - 1) - 2 / (s**2 - 1), 1 / 2),
    "1 + (s − 1) log|s − 1|/3": (lambda s: 1 + (s - 1) * tp.log(tp.abs(s - 1)) / 3, 1),
    "(√s − 1)/log s": (lambda s: (tp.sqrt(s) - 1) / tp.log(s), 1 / 2),
}
#: functions of two scalars with one limit, which is 1
OF_TWO = {
    "(s − t)/(s² − t²)": (lambda s, t: (s - t) / (s**2 - t**2), 1 / 2),
    "log(s/t)/(s − t)": (lambda s, t: tp.log(s / t) / (s - t), 1),
    "(exp s − exp t)/(s − t)": (lambda s, t: (tp.exp(s) - tp.exp(t)) / (s - t), np.e),
    "(√s − √t)/(s − t)": (lambda s, t: (tp.sqrt(s) - tp.sqrt(t)) / (s - t), 1 / 2),
    "1 + a b/√(a² + b²)": (lambda s, t: 1 + (s - 1) * (t - 1) / tp.sqrt((s - 1) ** 2 + (t - 1) ** 2), 1),
    "1 + sin²(a)/a · sin(b)/b": (lambda s, t: 1 + tp.sin(s - 1) ** 2 / (s - 1) * tp.sin(t - 1) / (t - 1), 1),
    "1 + (a + b) log|a + b|/9": (lambda s, t: 1 + (s + t - 2) * tp.log(tp.abs(s + t - 2)) / 9, 1),
    "1 + a²/(|a| + |b|)": (lambda s, t: 1 + (s - 1) ** 2 / (tp.abs(s - 1) + tp.abs(t - 1)), 1),
}
STAY_OF_TWO = {
    "(s − t)/(s² − t²)²": lambda s, t: (s - t) / (s**2 - t**2) ** 2,
    "(s − 1)/(s − t)": lambda s, t: (s - 1) / (s - t),
    "a b/(a² + b²)": lambda s, t: (s - 1) * (t - 1) / ((s - 1) ** 2 + (t - 1) ** 2),
    "(a log|a| − a)/b": lambda s, t: ((s - 1) * tp.log(tp.abs(s - 1)) - (s - 1)) / (t - 1),
    "a/√(a² + b²)": lambda s, t: (s - 1) / tp.sqrt((s - 1) ** 2 + (t - 1) ** 2),
    # 3a/b: what both terms tend to as a goes to 0 alone would cancel
    "(sin²(2a)/a − a)/b": lambda s, t: (tp.sin(2 * (s - 1)) ** 2 / (s - 1) - (s - 1)) / (t - 1),
}


def of_two(f):
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        return f(tp.avg(x * x), tp.avg((W @ x) ** 2))

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Vector, W: tp.Matrix, v: tp.Vector):
        return v * tp.sum(U * ξ, over="d") * f(tp.avg(b * b), tp.avg((W @ b) ** 2))

    return program, network


@pytest.mark.parametrize("case", [*AT_ONE, *OF_TWO])
def test_quotients_are_continued_at_any_limit(case):
    """Difference quotients tend to derivatives wherever their scalars do; what has order 1/√n may fluctuate."""
    f, value = AT_ONE.get(case) or OF_TWO[case]
    program, network = of_two((lambda s, t: f(s)) if case in AT_ONE else f)
    assert tp.derive(program).evaluate()["return"].value == pytest.approx(value, rel=1e-12)
    assert tp.derive(network, tp.Kernels()).evaluate(X).nngp.item() == pytest.approx(value**2, rel=1e-12)
    runs = [program.run(n=1000, seed=seed)["return"] for seed in range(20)]
    assert np.mean(runs) == pytest.approx(value, abs=0.06 * value) and np.std(runs) < 0.2


@pytest.mark.parametrize("case", STAY_OF_TWO)
def test_quotients_of_two_scalars_without_a_limit_are_refused(case):
    program, network = of_two(STAY_OF_TWO[case])
    for derived in (lambda: tp.derive(program).evaluate(), lambda: tp.derive(network, tp.Kernels()).evaluate(X)):
        with pytest.raises(tp.TplimitsError, match="not finite at the limit"):
            derived()


#: functions of s = S/√n with 1/n beside s in a pole, and the mean of their squares
BESIDE_N = {
    "s/√(s² + 1/n)": (lambda s: s / tp.sqrt(s * s + 1 / tp.n), lambda S: S**2 / (S**2 + 1)),
    "s/(|s| + 2/√n)": (lambda s: s / (tp.abs(s) + 2 / tp.sqrt(tp.n)), lambda S: (S / (abs(S) + 2)) ** 2),
    "1/(n s² + 1)": (lambda s: 1 / (tp.n * s**2 + 1), lambda S: (1 / (S**2 + 1)) ** 2),
    "1/(1 + 3/n + s)": (lambda s: 1 / (1 + 3 / tp.n + s), lambda S: 1.0 + 0 * S),
}


@pytest.mark.parametrize("case", BESIDE_N)
def test_powers_of_n_stay_beside_scalars_that_are_as_small(case):
    """1/n is as large as s²: functions of √n s, and not of sign(s), which has no limit."""
    f, square = BESIDE_N[case]
    nodes, weights = np.polynomial.legendre.leggauss(400)
    S = 5 * (nodes + 1)
    expected = np.sum(weights * 10 * square(S) * np.exp(-(S**2) / 2)) / np.sqrt(2 * np.pi)

    @tp.program
    def program(x: tp.Vector):
        return f(tp.avg(x))

    found = tp.derive(program).evaluate()["return"]
    assert found.variance + found.value**2 == pytest.approx(expected, rel=1e-6)
    runs = [program.run(n=400, seed=seed)["return"] ** 2 for seed in range(600)]
    assert abs(np.mean(runs) - expected) < 5 * np.std(runs) / 600**0.5 + 0.01


def test_a_kernel_with_1_over_n_beside_a_logit_is_random():
    limit = tp.derive(of_kernels(lambda s: s / tp.sqrt(s * s + 1 / tp.n)), tp.Kernels())
    kernels = limit.sample(X, draws=20000, seed=1).nngp
    # E S²/(S² + 1) = 1 − √(π/2) e^½ erfc(1/√2)
    assert np.mean(kernels) == pytest.approx(0.3443205, abs=0.012)


@pytest.mark.parametrize("case", STAY)
def test_a_pole_that_stays_is_refused(case):
    for derived in (
        lambda: tp.derive(of_width(STAY[case])).evaluate(),
        lambda: tp.derive(of_kernels(STAY[case]), tp.Kernels()).evaluate(X),
    ):
        with pytest.raises(tp.TplimitsError, match=r"not finite at the limit|stands under"):
            derived()


def test_scalars_that_are_zero_at_some_networks_are_not_divided_by():
    """avg(step(h)) − ½ is 0 at every other width with positive probability: 0/0 in networks."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        s = tp.avg(tp.step(W @ x)) - 0.5
        return tp.sin(s) / s

    with pytest.raises(tp.TplimitsError, match="not finite at the limit"):
        tp.derive(program).evaluate()


def test_the_quotient_of_two_fluctuations_stays():
    @tp.program
    def program(W: tp.Matrix, V: tp.Matrix, x: tp.Vector):
        return tp.avg(x * (W @ x)) / tp.avg(x * (V @ x))

    with pytest.raises(tp.TplimitsError, match="not finite at the limit"):
        tp.derive(program).evaluate()


@pytest.mark.parametrize("case", WEAK)
def test_a_power_is_stronger_than_a_logarithm(case):
    f = WEAK[case]
    assert tp.derive(of_width(lambda s: f(s) + 2)).evaluate()["return"].value == 2
    assert tp.derive(of_kernels(lambda s: f(s) + 2), tp.Kernels()).evaluate(X).nngp.item() == pytest.approx(4)
    small = [abs(of_width(f).run(n=n, seed=3)["return"]) for n in (100, 4000)]
    assert small[1] < small[0] < 1


@pytest.mark.parametrize("make", [of_width, of_kernels])
def test_what_vanishes_hides_no_pole_of_others(make):
    """sin²(s)/(s t) is S/T in the limit, a quotient of two fluctuations."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        s, t = tp.avg(x), tp.avg(y)
        return tp.sin(s) ** 2 / (s * t)

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], u: tp.Vector["d"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        s, t = tp.avg(x), tp.avg(tp.sum(u * ξ, over="d"))
        return v * x * (tp.sin(s) ** 2 / (s * t))

    with pytest.raises(tp.TplimitsError, match="not finite at the limit"):
        tp.derive(program).evaluate() if make is of_width else tp.derive(network, tp.Kernels()).evaluate(X)


#: a function of s = S/√n times a power of n, and the mean of it and of its square, S standard normal
BROUGHT_OUT = {
    "√n (log(1 + s)/s − 1)": (lambda s: tp.sqrt(tp.n) * (tp.log(1 + s) / s - 1), 0, 1 / 4),
    "n (sin(s)/s − 1)": (lambda s: tp.n * (tp.sin(s) / s - 1), -1 / 6, 3 / 36),
    "n (s − log(1 + s))": (lambda s: tp.n * (s - tp.log(1 + s)), 1 / 2, 3 / 4),
    "√n s²/tanh s": (lambda s: tp.sqrt(tp.n) * s**2 / tp.tanh(s), 0, 1),
    "√n s²/|s|": (lambda s: tp.sqrt(tp.n) * s * s / tp.abs(s), (2 / np.pi) ** 0.5, 1),
}


@pytest.mark.parametrize("case", BROUGHT_OUT)
def test_powers_of_n_bring_out_what_is_beside_the_limit(case):
    """−S/2, −S²/6 and S, not 0: the quotients fluctuate about what continues them."""
    f, mean, square = BROUGHT_OUT[case]

    @tp.program
    def program(x: tp.Vector):
        return f(tp.avg(x))

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * x * f(tp.avg(x))

    found = tp.derive(program).evaluate()["return"]
    assert (found.value, found.variance) == pytest.approx((mean, square - mean**2), abs=1e-12)
    runs = [program.run(n=400, seed=seed)["return"] ** 2 for seed in range(600)]
    assert abs(np.mean(runs) - square) < 5 * np.std(runs) / 600**0.5 + 0.01 * square
    kernels = tp.derive(network, tp.Kernels(train=("v",))).sample(np.array([[1.0]]), draws=20000).nngp
    assert np.mean(kernels) == pytest.approx(square, rel=0.1)


def test_powers_of_n_bring_out_a_logarithm():
    """√n s log|s| is S (log|S| − log(n)/2), without a limit."""

    @tp.program
    def in_two_lines(x: tp.Vector):
        s = tp.avg(x)
        t = s * tp.log(tp.abs(s))
        return tp.sqrt(tp.n) * t

    for derived in (
        lambda: tp.derive(in_two_lines),
        lambda: tp.derive(of_width(lambda s: tp.sqrt(tp.n) * s * tp.log(tp.abs(s)))).evaluate(),
        lambda: tp.derive(of_kernels(lambda s: tp.sqrt(tp.n) * (s * tp.log(tp.abs(s)))), tp.Kernels()).evaluate(X),
    ):
        with pytest.raises(tp.NoLimitError, match=r"not finite at the limit|grows"):
            derived()


def test_blocks_refuse_a_quotient_of_what_is_nothing():
    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, H: tp.Matrix):
        return x + (W @ x) * of_sine(tp.avg(H @ (x - x))) / tp.sqrt(tp.n)

    with pytest.raises(tp.NoLimitError, match="not finite at the limit"):
        tp.derive(block, tp.Proportional())


def test_the_denominator_is_divided_by_to_the_order_that_is_asked():
    """s/(e^s − 1) = 1 − s/2 + …, so that √n (s/(e^s − 1) − 1 + s) → S/2."""

    @tp.program
    def program(x: tp.Vector):
        s = tp.avg(x)
        return tp.sqrt(tp.n) * (s / (tp.exp(s) - 1) - 1 + s)

    assert tp.derive(program).evaluate()["return"].variance == pytest.approx(0.25, abs=1e-12)


#: what is divided by is 0 at every width, or in every second network: nothing is beside the pole, and networks give NaN
NOWHERE_ELSE = {
    "nothing": lambda W, x, y: of_sine(tp.avg(W @ (x - x))),
    "a difference of kinks": lambda W, x, y: of_sine(tp.avg(tp.relu(x) - tp.relu(-x) - x)),
    "the positive part of a mean": lambda W, x, y: of_sine(tp.relu(tp.avg(x))),
    "the lesser of two means": lambda W, x, y: of_sine(tp.minimum(tp.avg(x), tp.avg(y)) - tp.avg(y)),
    "a norm": lambda W, x, y: of_log(tp.avg((x / tp.sqrt(tp.avg(x * x))) ** 2)),
    "both sides of a matrix": lambda W, x, y: of_sine(tp.avg(x * (W @ y)) - tp.avg((W.T @ x) * y)),
}


def of_sine(s):
    return tp.sin(s) / s


def of_log(s):
    return tp.log(s) / (s - 1)


@pytest.mark.parametrize("case", NOWHERE_ELSE)
def test_what_is_nowhere_beside_a_pole_is_not_continued(case):
    f = NOWHERE_ELSE[case]

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
        return f(W, x, y)

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, x: tp.Vector, y: tp.Vector, v: tp.Vector):
        return v * tp.sum(U * ξ, over="d") * f(W, x, y)

    assert np.isnan([program.run(n=50, seed=seed)["return"] for seed in range(20)]).any()
    for derived in (
        lambda: tp.derive(program).evaluate(),
        lambda: tp.derive(program, tp.FiniteWidth()).evaluate(),
        lambda: tp.derive(network, tp.Kernels(train=("v",))).evaluate(X),
    ):
        with pytest.raises(tp.TplimitsError, match="not finite at the limit"):
            derived()


#: a function of s → 0 and a vector with a quotient and a kink that s moves, and what it tends to
BESIDE_KINKS = {
    "relu(v − s) sin(s)/s": (lambda s, v: tp.relu(v - s) * tp.sin(s) / s, lambda v: np.maximum(v, 0)),
    "|v + s| tanh(v s)/s": (lambda s, v: tp.abs(v + s) * tp.tanh(v * s) / s, lambda v: abs(v) * v),
    "v relu(1 + s) (1 − cos s)/s²": (lambda s, v: v * tp.relu(1 + s) * (1 - tp.cos(s)) / s**2, lambda v: v / 2),
    "|s| sin(s)/s": (lambda s, v: v + tp.abs(s) * tp.sin(s) / s, lambda v: v),
    "1/(1 + |tanh(v s)/s|)": (lambda s, v: 1 / (1 + tp.abs(tp.tanh(v * s) / s)), lambda v: 1 / (1 + abs(v))),
    "v²/(v² + tanh(v s)²/s²)": (lambda s, v: v**2 / (v**2 + (tp.tanh(v * s) / s) ** 2), lambda v: 0.5 + 0 * v),
}
NODES = np.linspace(-10, 10, 20001)


@pytest.mark.parametrize("case", BESIDE_KINKS)
def test_quotients_are_continued_beside_kinks_and_in_denominators(case):
    f, limit = BESIDE_KINKS[case]

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, v: tp.Vector = tp.init(mean=0.5)):  # noqa: B008
        return tp.avg(f(tp.avg(x * (W @ x)), v))

    law = np.exp(-((NODES - 0.5) ** 2) / 2) / np.sqrt(2 * np.pi) * (NODES[1] - NODES[0])
    assert tp.derive(program).evaluate()["return"].value == pytest.approx((law * limit(NODES)).sum(), abs=1e-6)


def test_a_quotient_beside_a_kink_has_the_expansion_of_its_series():
    def expanded(f):
        @tp.program
        def program(x: tp.Vector, w: tp.Vector, v: tp.Vector):
            s = tp.avg(x * w)
            return tp.avg(f(s) * tp.relu(v - s) * v)

        found = tp.derive(program, tp.FiniteWidth())
        return [float(e) for e in (found.limit("return"), found.bias("return"), found.covariance("return"))]

    series = expanded(lambda s: 1 + s - s**2 / 6)
    # relu(v − s) v has mean ½ − φ(0) s + … and no part of order s²: Var s = 1/n
    assert expanded(lambda s: tp.sin(s) / s + s) == pytest.approx(series, rel=1e-6)
    assert series[:2] == pytest.approx([0.5, -1 / 12 - (2 * np.pi) ** -0.5], abs=1e-6)


#: a function of s → 0, with either sign, and a vector; what it tends to from both sides
FROM_BOTH_SIDES = {
    "v² + s v tanh(v/s)": (lambda s, v: v * v + s * v * tp.tanh(v / s), lambda v: v * v),
    "s min(1, max(−1, v/s))": (lambda s, v: s * tp.minimum(1, tp.maximum(-1, v / s)), lambda v: 0 * v),
    "|s v|/|s|": (lambda s, v: tp.abs(s * v) / tp.abs(s), abs),
    "v sign(s v) sign(s) + v": (lambda s, v: v * tp.sign(s * v) * tp.sign(s) + v, lambda v: abs(v) + v),
    "v sign(v/s) sign(s)": (lambda s, v: v * tp.sign(v / s) * tp.sign(s), abs),
    "v² tanh(s) sign(s)/|s|": (lambda s, v: v * v * tp.sign(s) * tp.tanh(s) / tp.abs(s), lambda v: v * v),
    "relu(s² v)/s²": (lambda s, v: tp.relu(s * s * v) / s**2, lambda v: np.maximum(v, 0)),
}


def of_either_side(f):
    """A program and a network of one function."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, v: tp.Vector):
        return tp.avg(f(tp.avg(x * (W @ x)), v))

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, u: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return u * f(tp.avg(x * (W @ x)), v)

    return program, network


@pytest.mark.parametrize("case", FROM_BOTH_SIDES)
def test_what_is_the_same_from_both_sides_has_a_limit(case):
    f, limit = FROM_BOTH_SIDES[case]
    program, network = of_either_side(f)
    law = np.exp(-(NODES**2) / 2) / np.sqrt(2 * np.pi) * (NODES[1] - NODES[0])
    kernel = tp.derive(network, tp.Kernels(train=())).evaluate(X[:1]).nngp.item()
    found = tp.derive(program).evaluate()["return"].value
    assert [found, kernel] == pytest.approx([(law * limit(NODES)).sum(), (law * limit(NODES) ** 2).sum()], abs=1e-6)


@pytest.mark.parametrize(
    "f",
    [
        lambda s, v: v * tp.tanh(v / s),
        lambda s, v: v * tp.sign(s * v),
        lambda s, v: tp.relu(s * v) / tp.abs(s),
        lambda s, v: s * v * tp.tanh(v / s) / s,
        lambda s, v: tp.sqrt(tp.n) * s * v * tp.tanh(v / s),
    ],
)
def test_what_depends_on_the_side_has_none(f):
    program, network = of_either_side(f)
    with pytest.raises(tp.NoLimitError):
        tp.derive(program)
    with pytest.raises(tp.NoLimitError):
        tp.derive(network, tp.Kernels(train=()))


@tp.program
def by_names(W: tp.Matrix, x: tp.Vector, b: tp.Vector):
    s = tp.avg(W @ x * (W @ x)) / tp.avg(x * x)
    z = s - 1
    m = b * (s**2 - 1)
    return tp.avg(tp.tanh(m / z) ** 2)


@tp.program
def stays_by_names(W: tp.Matrix, x: tp.Vector, b: tp.Vector):
    s = tp.avg(W @ x * (W @ x)) / tp.avg(x * x)
    z = s - 1
    m = b * (s**2 - z)
    return tp.avg(tp.tanh(m / z) ** 2)


@tp.network
def network_by_names(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, b: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    s = tp.avg(W @ b * (W @ b)) / tp.avg(b * b)
    z, m = s - 1, x * tp.log(s)
    return v * tp.tanh(2 * m / z)


@pytest.mark.long
def test_a_pole_is_removable_through_the_names_of_what_is_divided():
    nodes, step = np.linspace(-10, 10, 4001, retstep=True)
    mean = lambda f: float(step * f @ np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi))  # noqa: E731 - of values at nodes
    value = tp.derive(by_names).evaluate()["return"].value
    assert value == pytest.approx(mean(np.tanh(2 * nodes) ** 2), abs=1e-9)
    assert value != pytest.approx(mean(np.tanh(nodes) ** 2), abs=0.1)
    assert tp.check(tp.derive(by_names), seed=1, progress=False).accepted
    twin = {"return": mean(np.tanh(nodes) ** 2)}
    assert not tp.check(tp.derive(by_names), claims=twin, seed=1, progress=False).accepted
    kernel = tp.derive(network_by_names, tp.Kernels()).evaluate(X).nngp.item()
    assert kernel == pytest.approx(mean(np.tanh(2 * nodes) ** 2), abs=1e-9)


def test_a_pole_that_stays_is_refused_through_names():
    with pytest.raises(tp.NoLimitError, match="`1/z` is not finite"):
        tp.derive(stays_by_names)
