"""Powers of n of averages that scalars stand in, and of functions that bend away from 0, beside numbers."""

from fractions import Fraction

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.program.nodes.entries import NO_NEURON, Entry
from tplimits.program.nodes.evaluate import ARRAY_FUNCTIONS, evaluate
from tplimits.program.nodes.functions import maximum, minimum, relu, step, where
from tplimits.regimes.classification.derivation.counting import Counting
from tplimits.regimes.classification.derivation.factors import as_power, multiplied_by_powers
from tplimits.regimes.classification.derivation.sizes import (
    Size,
    _power,
    product,
    size_of,
)

HALF = Fraction(1, 2)
N = sympy.Symbol("n", positive=True)
x, y = (Entry(sympy.Integer(i), sympy.Symbol("α")) for i in range(2))


@tp.network
def nested(ξ: tp.Input["d"], U: tp.Vector["d"], V: tp.Vector["d"], v: tp.Vector):
    """Averages of what a scalar of size n^(−½) stands in: b has a mean of 0 by a alone, c by its neurons, too."""
    x, y = tp.sum(U * ξ, over="d"), tp.sum(V * ξ, over="d")
    a = tp.avg(x * y)
    b = tp.avg(tp.tanh(a * x) * x)
    c = tp.avg(a * x + y)
    return v * tp.tanh(x + tp.sqrt(tp.n) * b + c)


def measured(n, many=400):
    """The typical sizes of a, b and c."""
    x, y = np.random.default_rng(n).standard_normal((2, many, n))
    a = (x * y).mean(-1, keepdims=True)
    found = a, (np.tanh(a * x) * x).mean(-1), (a * x + y).mean(-1)
    return np.array([np.sqrt((f**2).mean()) for f in found])


def test_an_average_is_as_small_as_the_scalar_in_it_and_no_smaller():
    counting = Counting(nested, tp.NTP, tp.SGD())
    averages = [p for p, s in enumerate(nested) if type(s).__name__ == "Avg"]
    counted = [counting.steps[0].sizes[p].start for p in averages]
    slopes = np.log(measured(4096) / measured(64)) / np.log(64)
    np.testing.assert_allclose(slopes, np.array(counted, dtype=float), atol=0.08)
    assert counted == [-HALF] * 3  # −1 for b would be that of independent neurons


BOUND = sympy.sqrt(N)
CLAMPS = {
    "a bound that is not reached": (relu(x + BOUND) - relu(x - BOUND) - BOUND, 0, 0),
    "as a difference of three": (relu(BOUND + x) - relu(BOUND - x) - x, 0, 0),
    "one bound": (relu(x + N) - N, 0, 0),
    "a bound that is passed": (relu(x) - relu(x - 6), 1, 0),
    "of a rectified sum": (relu(3 + relu(x)) - relu(3 - relu(x)) - relu(x), 2, 0),
    "by extremes": (minimum(maximum(x, -1), 1), 1, 0),
    "half of it passed": (relu(x + 1) - 1, 1, 1),
    "beside others": (y + relu(x) - relu(x - 6), 1, 0),
    "of two sums": (relu(x + 1) + relu(x + y), 1, 1),
}


@pytest.mark.parametrize("case", CLAMPS)
def test_bends_of_one_argument_are_one_function(case):
    body, power, wanted = CLAMPS[case]

    def of_entry(entry):
        return Size(Fraction(power) if entry == x else Fraction(0), Fraction(-9))

    assert size_of(body, of_entry, frozenset([N])).start == wanted
    p, q = sympy.symbols("p q", real=True)
    plain = body.xreplace({x: p, y: q}).replace(relu, lambda a: sympy.Max(a, 0))
    plain = plain.replace(maximum, sympy.Max).replace(minimum, sympy.Min)
    numbers = sympy.lambdify([N, p, q], plain, "numpy")
    sizes = []
    for n in (1e4, 1e8):
        at = np.linspace(-3, 3, 601) * n**power
        sizes.append(np.sqrt(np.mean(np.broadcast_to(numbers(n, at, np.cos(at)), at.shape) ** 2)))
    assert np.log(sizes[1] / sizes[0]) / np.log(1e4) == pytest.approx(wanted, abs=0.05)


BASES = [Size(HALF), Size(-HALF, -1), Size(Fraction(1), HALF, -HALF), Size(Fraction(0), -HALF, -2), Size(-HALF, -HALF)]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("e", [2, 3])
def test_a_power_is_as_large_as_a_product(base, e):
    assert _power(base, Fraction(e)).powers == product([base] * e).powers


@pytest.mark.parametrize("base", BASES)
def test_a_quotient_undoes_a_product(base):
    """x² · x⁻¹ starts as x does, and moves by no less."""
    quotient = product([_power(base, Fraction(2)), _power(base, Fraction(-1))])
    assert quotient.start == base.start and quotient.change == base.change


def test_quotients_by_what_is_zero_at_the_start_are_larger_than_anything():
    assert _power(Size(), Fraction(-1)).start > 1000 and _power(Size(), Fraction(2)).start == float("-inf")


def test_what_a_growing_power_multiplies():
    """Of a product with n^(p), p > 0, the entries that stand in its other factors, and p; not those of other products.

    n x² is (√n x)².
    """
    root, bend, half = sympy.sqrt(N), sympy.Function("f"), Fraction(1, 2)
    for body, wanted in {
        root * x: {x: half}, sympy.tanh(root * x * sympy.tanh(y)): {x: half, y: half}, x * y / root: {}, 3 * x: {},
        root: {}, bend(N * x) + y: {x: 1}, x / N + N**2 * (y + 1): {y: 2}, N * x / root: {x: half}, x + N: {},
        N * x**2: {x: half}, N * x**2 + root * x * y: {x: half, y: half}, root * x + N * x * y: {x: 1, y: 1},
    }.items():  # fmt: skip
        assert multiplied_by_powers(body, frozenset([N])) == wanted, body
    assert multiplied_by_powers(N * x, frozenset()) == {}


def test_what_is_left_of_a_sum_shares_a_growing_power():
    """n (cos(s) − 1) is −(√n s)²/2, n (sin(s) − s) is −(n^(1/3) s)³/6; beside relu(t), of order 1, it is n relu(t)."""
    s, t = (Entry(sympy.Integer(i), NO_NEURON) for i in (2, 3))
    third, whole = Fraction(1, 3), Fraction(1)
    for factor, power in {
        sympy.cos(s) - 1: HALF, sympy.exp(s) - 1 - s: HALF, sympy.sin(s) - s: third, sympy.exp(s) - 1: whole,
        sympy.cos(s) - 1 + relu(t): whole, s + sympy.cos(t): whole,
    }.items():  # fmt: skip
        assert multiplied_by_powers(N * factor * x, frozenset([N]))[s] == power, factor
        assert as_power(factor) == 1 / power


def vanishing_gate(at):
    """Jumps at `at` of what is small because a scalar in it is: avg(sin(W b)) is of order n^(−½)."""

    @tp.network
    def gated(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, v: tp.Vector):
        s = tp.avg(tp.sin(W @ b))
        return v * tp.step(tp.relu(W @ (s * tp.sum(U * ξ, over="d"))) - at)

    return gated


@pytest.mark.parametrize(("at", "regime"), [(0.4, "trivial"), (-0.4, "operator")])
def test_a_jump_away_from_what_vanishes_is_a_constant(at, regime):
    """Of neurons of a network at width 2048 as many are on as are counted: none beyond 0.4, all beyond −0.4."""
    assert tp.classify(vanishing_gate(at), tp.NTP, tp.SGD()).regime == regime
    rng = np.random.default_rng(1)
    W, (b, x) = rng.standard_normal((2048, 2048)) / 2048**0.5, rng.standard_normal((2, 2048))
    on = np.maximum(W @ (np.sin(W @ b).mean() * x), 0) - at > 0
    assert on.mean() == (0 if regime == "trivial" else 1)


SMALL = Size(-HALF, -HALF)
BESIDE = {
    "a jump": (step(relu(x) - sympy.Rational(2, 5)), Size()),
    "a jump passed": (step(sympy.Rational(2, 5) - x), Size(Fraction(0))),
    "a bend": (relu(x - 1), Size()),
    "a bend passed": (relu(x + 1), Size(Fraction(0), -HALF)),
    "a root of its function": (sympy.log(1 + x) + sympy.tanh(x), SMALL),
    "a jump there": (step(x), Size(Fraction(0), Fraction(0))),
}


@pytest.mark.parametrize("name", BESIDE)
def test_functions_beside_a_constant(name):
    expr, size = BESIDE[name]
    found = size_of(expr, lambda _: SMALL, frozenset([N]))
    assert (found.start, found.change) == (size.start, size.change)


@pytest.mark.parametrize("head", [sympy.tanh, sympy.asinh, sympy.atan], ids=lambda h: h.__name__)
def test_what_grows_more_slowly_than_powers_has_none(head):
    """asinh(√n g) is like log n: its ratio between widths 4 apart goes to 1, that of √n g is 2."""
    big, small = (
        size_of(head(N ** sympy.Rational(power) * x), lambda _: Size(0), frozenset([N])).start
        for power in (HALF, -HALF)
    )
    assert (big, small) == (0, -HALF)
    rms = [np.sqrt((ARRAY_FUNCTIONS[head](np.sqrt(n) * np.linspace(-3, 3, 999)) ** 2).mean()) for n in (1e8, 4e8)]
    assert rms[1] / rms[0] < 1.1


s, t = (Entry(sympy.Integer(i), NO_NEURON) for i in range(2))
LEFT = {
    "cos(s) − 1": (sympy.cos(s) - 1, -1),
    "sin(s) − s": (sympy.sin(s) - s, Fraction(-3, 2)),
    "exp(s) − 1 − s": (sympy.exp(s) - 1 - s, -1),
    "√(1 + s) − 1": (sympy.sqrt(1 + s) - 1, -HALF),
    "cos(s) − cos(t)": (sympy.cos(s) - sympy.cos(t), -1),
    "beside what does not vanish": (x * sympy.cos(s) - x + t, -HALF),
    "of order 1": (sympy.cos(s) + 1, 0),
    "beside a kink": (sympy.cos(s) - 1 + relu(t), -HALF),
}


@pytest.mark.parametrize("name", LEFT)
def test_sums_that_cancel_where_scalars_vanish_are_left_with_their_taylor_terms(name):
    """Sizes n^(−½) of s and t, n^0 of x, beside numbers drawn at n = 10³ and 10⁵."""
    body, power = LEFT[name]
    counted = size_of(body, lambda e: Size(Fraction(0) if e == x else -HALF), frozenset()).start
    g = np.random.default_rng(3).standard_normal((3, 4000))
    names = dict(zip((s, t, x), sympy.symbols("s t x"), strict=True))
    of = sympy.lambdify(names.values(), body.xreplace(names), [{"relu": lambda u: np.maximum(u, 0)}, "numpy"])
    first, last = (np.sqrt(np.mean(of(g[0] / n**0.5, g[1] / n**0.5, g[2]) ** 2)) for n in (1e3, 1e5))
    assert counted == power and abs(np.log(last / first) / np.log(100) - float(power)) < 0.02


@pytest.mark.parametrize("named", [False, True])
def test_powers_that_make_what_is_left_of_order_one_break_nothing(named):
    """n (cos s − 1) of s of order n^(−½) is of order 1, with a name and without; n^(3/2) times it starts like n^(½)."""

    def network(power):
        @tp.network
        def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, y: tp.Vector, v: tp.Vector):
            x = tp.tanh(tp.sum(U * ξ, over="d"))
            s = tp.avg(x * y)
            q = tp.cos(s) - 1 if named else s
            return v * x + v * (W @ x) * (tp.n**power * (q if named else tp.cos(q) - 1))

        return net

    one, more = (tp.classify(network(power), tp.NTP, tp.SGD()) for power in (1, sympy.Rational(3, 2)))
    assert one.breaks == () and "what v reads starts like n^(1/2) instead of n^(0)" in more.breaks


@pytest.mark.parametrize("power", [-HALF, HALF])
@pytest.mark.parametrize(
    ("body", "small", "large"),
    [
        (sympy.log(1 + x**2), -1, 0),
        (sympy.log(2 + x**2), 0, 0),
        (where(x, x, x / 10), -HALF, HALF),
        (where(x - 1, x, x**2), -1, 1),
        (where(x, 2, x), 0, HALF),
    ],
)
def test_functions_of_what_is_small_and_of_what_is_large(body, power, small, large):
    """By what they are at n^(±½) times normal numbers: a logarithm grows slower than any power."""
    expected = small if power < 0 else large
    found = size_of(body, lambda entry: Size(power), frozenset({N}))
    assert found.start == expected
    drawn = np.random.default_rng(3).standard_normal(4001)
    values = [evaluate(body, {x: drawn * n ** float(power)}) + 0 * drawn for n in (1e8, 1e12)]
    sizes = [np.sqrt(np.mean(v**2)) for v in values]
    assert np.log(sizes[1] / sizes[0]) / np.log(1e4) == pytest.approx(float(expected), abs=0.06)
