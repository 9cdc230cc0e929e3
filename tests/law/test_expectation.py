"""What a mean is taken to be by symmetry."""

import itertools

import pytest
import sympy

import tplimits as tp
from tplimits.law import expectation
from tplimits.law.expectation import Expectations
from tplimits.law.gaussians import Gaussians
from tplimits.law.moments import _operations
from tplimits.program.nodes.functions import relu

x, y = sympy.symbols("x y", real=True)
FACTORS = (
    *(x, x**2, x + y, x - y, sympy.tanh(x + y), sympy.tanh(x - y), sympy.sech(x - y), x - x**3, 1 + x, 1 - x),
    *(sympy.exp(x), sympy.exp(-x - y), relu(x), relu(-x), sympy.cos(x), relu(x + y), relu(y - x)),
)


def test_signs_of_factors_give_the_sign_of_their_product():
    """Against the product itself with the signs turned, as a polynomial in what does not expand."""
    engine = Expectations(Gaussians())
    signs = set()
    for factors in itertools.chain(*(itertools.combinations(FACTORS, k) for k in (1, 2, 3))):
        product = sympy.Mul(*factors)
        for turned in (frozenset({x}), frozenset({y}), frozenset({x, y})):
            direct = sympy.expand(product.xreplace({v: -v for v in turned}))
            sign = engine._parity(product, turned)
            signs.add(sign)
            if sign:
                assert direct == sympy.expand(sign * product), (product, turned)
            else:  # not decided: no factor-wise reason
                assert product.xreplace({v: -v for v in turned}) not in (product, -product), (product, turned)
    assert signs == {-1, 0, 1}


def test_operations_are_counted_as_sympy_counts_them():
    """Whether a value gets a name hangs on the count; beyond the bound it may be any larger number."""
    a, b, c = sympy.symbols("a b c", real=True)
    long = sum(sympy.Symbol(f"d{i}") ** 2 for i in range(20))
    for value in (a * b + c, a * b * c + a * c + b, 2 * a - b, a**2 * b, sympy.sqrt(a) - c / b, sympy.exp(a) / (a + b)):
        assert _operations(value) == sympy.count_ops(value)
    assert 14 < _operations(sympy.exp(a) / long) <= sympy.count_ops(sympy.exp(a) / long)


def test_long_sums_by_their_covariances_have_the_mean_of_short_ones(monkeypatch):
    """Of pairs of terms that share nothing, the product of the means."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
        h = tp.relu(W @ x) + tp.tanh(W @ y) + y
        return tp.avg((h + x + 1) * (tp.abs(W @ y) + x + 2)), tp.avg((1 + x) * (1 + y))

    known = [n.value for n in tp.derive(program).evaluate().values()]
    monkeypatch.setattr(expectation, "_MANY_PAIRS", 0)
    found = [n.value for n in tp.derive(program).evaluate().values()]
    assert found == pytest.approx(known, rel=1e-12)
    assert known[1] == 1
