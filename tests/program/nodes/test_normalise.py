"""SymPy expressions in the heads of the language."""

import pytest
import sympy
from sympy import Rational

from tplimits.program.nodes.entries import GaussMean, normal_symbol
from tplimits.program.nodes.functions import maximum, relu, step, where
from tplimits.program.nodes.normalise import normalise, refuse_unreal

x, y = sympy.symbols("x y", real=True)


def test_what_is_rewritten():
    assert normalise(sympy.Max(x, 0)) == relu(x) == normalise(sympy.Max(0, x))
    assert normalise(sympy.Max(x, y)) == maximum(x, y)
    assert normalise(sympy.Heaviside(x)) == step(x)
    assert normalise(sympy.Float(0.5) * x) == Rational(1, 2) * x
    assert normalise(sympy.Piecewise((x, x >= 1), (y, True))) == where(1 - x, y, x)
    assert normalise(sympy.Piecewise((x, True))) == x
    assert normalise(3) == 3


def test_what_is_kept():
    mean = GaussMean(sympy.Float(0.5) * normal_symbol(1), normal_symbol(1))
    assert normalise(mean) == GaussMean(normal_symbol(1) / 2, normal_symbol(1))
    for expr in (sympy.pi * x, sympy.exp(x) ** 2, sympy.sqrt(sympy.E), x**y):
        assert normalise(expr) == expr


@pytest.mark.parametrize(
    ("expr", "words"),
    [
        (sympy.gamma(x), "the function gamma"),
        (sympy.zeta(3) * x, "the function zeta"),
        (sympy.Catalan * x, "the number Catalan"),
        (sympy.oo * x, "not finite"),
        (x + sympy.nan, "not finite"),
        (sympy.I * x, "the complex number I|the imaginary unit"),
        (sympy.acos(2), "the complex number acos"),
        (sympy.Integer(-1) ** Rational(1, 3), "the complex number"),
        (sympy.log(x, evaluate=False) / sympy.log(sympy.Integer(0), evaluate=False), "not finite"),
        (sympy.Piecewise((1, sympy.Ne(x, y)), (0, True)), "which is not an inequality"),
        (sympy.DiracDelta(x), "the function DiracDelta"),
    ],
)
def test_what_is_refused(expr, words):
    with pytest.raises(ValueError, match=words):
        normalise(expr)


def test_real_expressions_pass():
    refuse_unreal(sympy.sqrt(x) + sympy.log(3) - 2)
