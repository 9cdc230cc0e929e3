"""Expansions in ε against the expression itself at small ε, and against SymPy's own series."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.regimes.depth.algebra.laurent import laurent

ε = sympy.Symbol("ε", positive=True)
a, c, u = sympy.symbols("a c u", real=True)
NUMBERS = {a: sympy.Rational(7, 5), c: sympy.Rational(3, 7), u: sympy.Rational(6, 5)}

EXPANDED = [
    1 / (1 + c * ε),
    sympy.sqrt(1 - a**2 / 4 + c * ε**2),
    a / ε * sympy.tanh(u * ε / a),
    (a / ε * (sympy.tanh(1 + u * ε / a) - sympy.tanh(1))) ** 2,
    sympy.exp(ε * u) / (1 + sympy.exp(-ε)),
    1 / sympy.sqrt(a**2 / ε**2 + 3 / ε + c),
    (1 - sympy.cos(ε * u)) / ε**2,
    sympy.erf(ε * u + 1) / ε**3,
    sympy.log(1 + ε) / ε,
    (ε + ε**3) ** -3,
    (1 + ε) ** 12,
    (sympy.exp(ε) - 1 - ε) ** -2,
    1 / (sympy.cos(ε) - 1),
    sympy.sqrt((1 + ε) ** 2 - 1 - 2 * ε),
]


@pytest.mark.parametrize("limit", [0, 2, 5])
@pytest.mark.parametrize("expr", EXPANDED, ids=str)
def test_what_is_left_out_is_of_higher_order(expr, limit):
    """The error at ε = 10⁻⁴ is below that at 10⁻³ by the powers that are known, in 80 digits."""
    found = laurent(expr, ε, limit)
    assert found is not None and (found.cut is None or found.cut >= limit)
    rest = (expr - sympy.Add(*(k * ε**i for i, k in found.terms.items()))).subs(NUMBERS)
    coarse, fine = (abs(sympy.N(rest.subs(ε, sympy.Rational(1, 10**k)), 80)) for k in (3, 4))
    assert fine < 1e-60 or sympy.log(coarse / fine, 10) > limit + 0.9


@pytest.mark.parametrize("expr", [expr for expr in EXPANDED if not expr.has(sympy.tanh, sympy.erf)][:7], ids=str)
def test_the_same_as_the_general_algorithm(expr):
    found = laurent(expr, ε, 3)
    ours = sympy.Add(*(k * ε**i for i, k in found.terms.items()))
    assert sympy.simplify(ours - sympy.series(expr, ε, 0, 4).removeO()) == 0


@pytest.mark.parametrize(
    "expr",
    [sympy.sqrt(ε), sympy.tanh(1 / ε), sympy.Abs(ε - ε**2), sympy.exp(1 / ε), ε ** sympy.Rational(3, 2), sympy.log(ε)],
    ids=str,
)
def test_what_has_no_expansion_in_whole_powers(expr):
    assert laurent(expr, ε, 2) is None


def test_zeros_and_polynomials_are_exact():
    assert laurent(sympy.S.Zero, ε, 2).terms == {} and laurent((1 + ε) * ε - ε, ε, 2).terms == {2: 1}
    assert laurent(ε**-1 + c, ε, 4).cut is None


@pytest.mark.parametrize(
    ("inside", "drift"),
    [
        (lambda h, r: r * tp.tanh(h / r), lambda V, a, b: V[a, b]),
        (lambda h, r: r**2 * (tp.cos(h / r) - 1), lambda V, a, b: (V[a, a] * V[b, b] + 2 * V[a, b] ** 2) / 4),
        (lambda h, r: r**3 * (tp.tanh(h / r) - h / r),
         lambda V, a, b: 2 * V[a, b] ** 3 / 3 + V[a, a] * V[a, b] * V[b, b]),
    ],
    ids=["odd", "even", "cubic"],
)  # fmt: skip
def test_roots_of_the_powers_of_n_that_cancel(inside, drift):
    """n^(1/4) tanh(h/n^(1/4)) = h − h³/(3 √n) + … has whole powers of n^(−1/2)."""

    @tp.block
    def shaped(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return x + U @ inside(W @ x, tp.sqrt(tp.sqrt(tp.n))) / tp.sqrt(tp.n)

    V = np.array([[1.3, 0.4], [0.4, 0.9]])
    wanted = [[drift(V, a, b) for b in range(2)] for a in range(2)]
    np.testing.assert_allclose(tp.derive(shaped, tp.Proportional()).drift_at(V), wanted, rtol=1e-12)


def test_what_is_too_large_with_them_is_said():
    """Of a shaped tanh of this kind it is the drift that has no limit, and with odd powers left there is no series."""

    def branch(function):
        @tp.block
        def shaped(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, γ):
            return tp.sqrt(1 - γ**2) * x + γ * (U @ function(W @ x, tp.sqrt(tp.sqrt(tp.n))))

        return shaped

    for function, reason in (
        (lambda h, r: r * tp.tanh(h / r), r"of order n\^\(-1/2\)"),
        (lambda h, r: tp.tanh(h / r), "no expansion in whole powers"),
    ):
        with pytest.raises(tp.NoLimitError, match=reason):
            tp.derive(branch(function), tp.Proportional())
