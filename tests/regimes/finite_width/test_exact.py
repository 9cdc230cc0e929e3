"""L, b and C in closed form: published numbers, numbers by hand, and the numerical expansion of other programs."""

import re

import pytest
import sympy
from expanded import KNOWN
from sympy import Rational, pi, sqrt

import tplimits as tp
from tplimits.regimes.finite_width.shorter import tidy

EXACT = [
    (name, place, row)
    for name, (_, _, rows) in KNOWN.items()
    for place, row in enumerate(rows if isinstance(rows, tuple) else (rows,))
    if not re.search(r"\.|\?", row)
]


@pytest.mark.parametrize(("name", "place", "row"), EXACT, ids=[f"{name} {place}" for name, place, _ in EXACT])
def test_known_expansions(name, place, row):
    program, ratios, _ = KNOWN[name]
    limit = tp.derive(program, tp.FiniteWidth())
    label = limit.labels[place]
    found = limit.exact(label, ratios=ratios)
    stated = [sympy.sympify(text) for text in row.split()]
    parts = (found.limit(label), found.bias(label), found.covariance(label))
    assert [sympy.simplify(a - b) for a, b in zip(parts, stated, strict=True)] == [0, 0, 0]


def test_all_that_is_known_exactly_is_looked_at():
    assert {name for name, _, _ in EXACT} >= {"tied relu", "Wishart", "fourth", "critical relu", "vanishing"}


def test_skewness_by_its_textbook_bias():
    """b = γ (15 (μ4 − 1)/8 − 3/2) − 3/2 (μ5 − 4γ), C by ψ = y³ − 3y − γ − 3γ (y² − 1)/2."""
    program = KNOWN["cubed"][0]
    z = sympy.Symbol("z", real=True)
    normal = [0 if k % 2 else sympy.factorial2(k - 1) for k in range(13)]
    γ, μ4, μ5, μ6 = (
        sum(c * normal[m[0]] for m, c in sympy.Poly((z**2 + z - 1) ** k, z).terms()) / sqrt(3) ** k
        for k in (3, 4, 5, 6)
    )
    found = tp.derive(program, tp.FiniteWidth()).exact()
    assert sympy.simplify(found.limit("return") - γ) == 0
    bias = γ * (15 * (μ4 - 1) - 12) / 8 - 3 * (μ5 - 4 * γ) / 2
    assert sympy.simplify(found.bias("return") - bias) == 0
    variance = 9 + μ6 - 6 * μ4 - 3 * γ * μ5 + γ**2 * (9 * μ4 + 35) / 4
    assert sympy.simplify(found.covariance("return") - variance) == 0


def test_the_tangent_kernel_of_a_deep_linear_network():
    """Three terms of variance 6/n, and covariances 4, 2 and 4: layers and inputs they share count 2 each."""

    @tp.program
    def linear(W1: tp.Matrix, W2: tp.Matrix, x: tp.Vector, v: tp.Vector):
        h = W1 @ x
        first, second = tp.avg((W2 @ h) ** 2), tp.avg(h**2) * tp.avg(v**2)
        return first + second + tp.avg(x**2) * tp.avg((W2.T @ v) ** 2)

    found = tp.derive(linear, tp.FiniteWidth()).exact("return")
    assert (found.limit("return"), found.bias("return"), found.covariance("return")) == (3, 0, 38)


def test_two_scalars_by_hand():
    """Avg x and Avg x², E x = 1, Var x = 4: covariance E x³ − E x E x² = 13 − 5, variances 4 and 2·16 + 4·4."""

    @tp.program
    def moments(g: tp.Vector):
        x = 1 + 2 * g
        return tp.avg(x), tp.avg(x**2), tp.sqrt(tp.n) * tp.avg(x - 1), tp.avg(x) / tp.sqrt(tp.n) + 3 / tp.n

    a, b, noise, small = (f"return[{k}]" for k in range(4))
    found = tp.derive(moments, tp.FiniteWidth()).exact()
    assert (found.covariance(a, b), found.covariance(a), found.covariance(b)) == (8, 4, 48)
    assert (found.limit(noise), found.covariance(noise)) == (0, 4)
    assert (found.limit(small), found.bias(small), found.covariance(small)) == (0, 3, 0)


@tp.program
def normalised(W: tp.Matrix, x: tp.Vector):
    t = tp.relu(W @ x)
    centred = t - tp.avg(t)
    return tp.avg((centred / tp.sqrt(tp.avg(centred**2))) ** 4)


@tp.program
def two_widths(W: tp.Matrix["k", "n"], x: tp.Vector):
    z = W.T @ tp.relu(W @ x)
    return tp.avg(tp.relu(z) * x)


@tp.program
def attended(Q: tp.Matrix, V: tp.Matrix, x: tp.Vector["token"]):
    p = tp.softmax(0.3 * tp.avg((Q @ x) * (Q @ x).rename(token="key")), over="key")
    return tp.avg(tp.sum(p * (V @ x).rename(token="key"), over="key").sel(token=0) ** 2)


@tp.program
def waves(W: tp.Matrix, x: tp.Vector, *, c):
    return tp.avg(tp.cos(c * (W @ x)) * x**2) * tp.exp(tp.avg(x**2))


@tp.program
def smooth(W: tp.Matrix, x: tp.Vector):
    return tp.avg(tp.gelu(W @ x)), tp.avg(tp.erf(W @ x) ** 2)


OWN = {
    "layer norm": (normalised, {}, "return"),
    "two widths": (two_widths, {"ratios": {"k": 0.5}}, "return"),
    "attention": (attended.bind(token=2), {}, "return"),
    "waves": (waves, {"c": 0.5}, "return"),
    "gelu": (smooth, {}, "return[0]"),
}


@pytest.mark.parametrize("name", OWN)
def test_other_programs_have_the_numbers_of_a_grid(name):
    program, given, label = OWN[name]
    limit = tp.derive(program, tp.FiniteWidth())
    found, numbers = limit.exact(label, **given), limit.evaluate(**given)[label]
    assert float(found.limit(label)) == pytest.approx(float(numbers.limit), abs=1e-9)
    assert float(found.bias(label)) == pytest.approx(float(numbers.bias), rel=1e-7, abs=1e-9)
    assert float(found.covariance(label)) == pytest.approx(float(numbers.variance), rel=1e-7)


@pytest.mark.long
def test_layer_norm_of_a_relu():
    """A quotient of polynomials in π, the same that moments of relu(g) give: L = μ4/σ⁴."""
    found = tp.derive(normalised, tp.FiniteWidth()).exact("return")
    m, power = 1 / sqrt(2 * pi), {2: Rational(1, 2), 3: sqrt(2 / pi), 4: Rational(3, 2)}
    fourth = power[4] - 4 * m * power[3] + 6 * m**2 * power[2] - 3 * m**4
    assert sympy.simplify(found.limit("return") - fourth / (power[2] - m**2) ** 2) == 0
    assert found.bias("return").free_symbols == set()
    assert found.bias("return").count_ops() < 20


def test_what_has_no_closed_form_is_named():
    limit = tp.derive(KNOWN["norm"][0], tp.FiniteWidth())
    with pytest.raises(tp.EvaluationError, match=r"return\[1\] has no closed form: E\[tanh"):
        limit.exact()
    assert limit.exact("return[0]").covariance("return[0]") == 4
    erf = tp.derive(smooth, tp.FiniteWidth()).exact("return[1]")
    assert erf.bias("return[1]").free_symbols == set()
    assert not erf.closes("return[1]")
    with pytest.raises(tp.EvaluationError, match="the covariance of"):
        erf.covariance("return[1]")
    with pytest.raises(tp.ProgramError, match="was asked for"):
        erf.limit("return[0]")


def test_jumps_and_functions_of_two_neurons_are_refused():
    @tp.program
    def jumping(W: tp.Matrix, x: tp.Vector):
        return tp.avg(tp.erf(W @ x) * tp.sign(x))

    assert tp.derive(jumping, tp.FiniteWidth()).exact().limit("return") == 0
    with pytest.raises(tp.EvaluationError, match="function of two neurons"):
        tp.derive(KNOWN["two neurons"][0], tp.FiniteWidth()).exact("return[0]")


def test_they_are_printed():
    found = tp.derive(KNOWN["tied relu"][0], tp.FiniteWidth()).exact("return[0]", "return[1]")
    assert str(found).splitlines() == [
        "return[0]  L = 1/2  b = 0  C = 7/4",
        "return[1]  L = 3/4  b = 3/4  C = 53/8",
    ]
    assert r"\frac{1}{n}\left(\frac{53}{8}\right)" in found._repr_latex_()


@tp.program
def shifted(W: tp.Matrix, x: tp.Vector, one: tp.Vector = 1):
    return tp.avg(tp.relu(W @ (x + one)))


@tp.program
def scaled(W: tp.Matrix, x: tp.Vector, c: tp.Scalar):
    return tp.avg(c * tp.relu(W @ x)) ** 2


@pytest.mark.parametrize(
    ("program", "given", "expected"),
    [
        # relu has mean (r/2π)^(½) at squared length r: 2 + √(6/n) g of x + 1, 1 + √(2/n) g of x
        (shifted, {}, (1 / sqrt(pi), -3 / (16 * sqrt(pi)), 1 - 5 / (8 * pi))),
        (scaled, {"c": 2}, (2 / pi, 2 - 2 / pi, (16 * pi - 8) / pi**2)),
    ],
)
def test_vectors_of_ones_and_scalars_that_are_given(program, given, expected):
    found = tp.derive(program, tp.FiniteWidth()).exact(**given)
    parts = (found.limit("return"), found.bias("return"), found.covariance("return"))
    assert [sympy.simplify(a - b) for a, b in zip(parts, expected, strict=True)] == [0, 0, 0]


@pytest.mark.parametrize(
    "text",
    [
        "sqrt(6)/(2*sqrt(3)) - sqrt(2)/2",
        "1/(1 + sqrt(2)) - sqrt(2) + 1",
        "exp(1/2)**2 - E",
        "sqrt(12*pi)/2 - sqrt(3*pi)",
    ],
)
def test_numbers_that_are_zero_are_seen_to_be(text):
    assert tidy(sympy.sympify(text, evaluate=False)) == 0


def test_a_fluctuation_that_is_divided_by_the_root_again():
    """exp(⟨x|y⟩) + ⟨x²⟩ with √n ⟨x|y⟩ named: E exp(g/√n) is 1 + 1/(2n), and the variances 1 and 2 add up."""

    @tp.program
    def named(x: tp.Vector, y: tp.Vector):
        s = tp.sqrt(tp.n) * tp.avg(x * y)
        twice = 2 * s
        r = twice / tp.sqrt(4 * tp.n)
        return tp.exp(r) + tp.avg(x * x)

    limit = tp.derive(named, tp.FiniteWidth())
    found, exact = limit.evaluate()["return"], limit.exact("return")
    assert [found.limit.value, found.bias.value, found.variance.value] == pytest.approx([2, 0.5, 3], rel=1e-10)
    assert [exact.limit("return"), exact.bias("return"), exact.covariance("return")] == [2, Rational(1, 2), 3]


def test_powers_of_the_root_of_the_width_and_what_stays_random_are_told():
    """E √n (m + m²) = 1/√n for a mean m of normal entries; the length of W x gives relu L = (2π)^(−½), b = −L/4."""

    @tp.program
    def roots(W: tp.Matrix, x: tp.Vector):
        m = tp.avg(x)
        return tp.sqrt(tp.n) * (m + m**2), tp.avg((1 + 3 / tp.sqrt(tp.n)) * tp.relu(W @ x))

    limit = tp.derive(roots, tp.FiniteWidth())
    exact, one = limit.exact(), 1 / sqrt(2 * pi)
    assert [exact.root("return[0]"), exact.bias("return[0]"), exact.covariance("return[0]")] == [1, 0, 1]
    assert sympy.simplify(exact.root("return[1]") - 3 * one) == sympy.simplify(exact.bias("return[1]") + one / 4) == 0
    for name in ("return[0]", "return[1]"):
        of = limit.evaluate()[name]
        assert limit.bias(name) == of.bias
        assert limit.limit(name) == of.limit
        assert float(exact.root(name)) == pytest.approx(float(of.root))
    first, second, _ = str(exact).splitlines()
    assert first == "return[0]  random in the limit, variance 1  and 1/√n"
    assert second.endswith("  and 3*sqrt(2)/(2*sqrt(pi))/√n")
    told = exact._repr_latex_()
    assert r"\text{return[0]} &\to N\left(0, 1\right)" in told
    assert r"\frac{1}{\sqrt n}\left(\frac{3 \sqrt{2}}{2 \sqrt{\pi}}\right)" in told
    # (1 + 3/√n)(L + b/n) goes on with n^(−3/2), what has no root with n^(−2)
    assert (told.count("O(n^{-3/2})"), told.count("O(n^{-2})")) == (2, 2)
    printed = limit.latex()
    assert (printed.count("O(n^{-3/2})"), printed.count("O(n^{-2})")) == (2, 2)
