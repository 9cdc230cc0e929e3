"""Softmax as softmax: e^{L_b} over Σ_i e^{L_i} is found again, by its form, in the products that means hold."""

from __future__ import annotations

import sympy
from sympy import Expr

from tplimits.program.nodes.entries import AxisSum, Leaf, argument


class Softmax(Leaf):
    """softmax of a family along an axis, at one of its members: (the family there, its index, the axis as a Symbol)."""

    family: Expr = argument(0)
    index: Expr = argument(1)

    @property
    def axis(self) -> str:
        return self.args[2].name


def with_softmax(expr: Expr) -> Expr:
    """An expression with its softmaxes by name.

    >>> L, a, b, i, key = sympy.Function("L"), *map(sympy.Symbol, "abi"), sympy.Symbol("key")
    >>> with_softmax(sympy.exp(L(a, b)) / AxisSum(sympy.exp(L(a, i)), i, key))
    Softmax(L(a, b), b, key)
    """
    if not expr.has(AxisSum) or not expr.has(sympy.exp):
        return expr
    expr = expr.func(*map(with_softmax, expr.args))
    return _shares(expr) if expr.is_Mul else expr


def _shares(product: Expr) -> Expr:
    exponents: list[Expr] = []
    totals: list[tuple[AxisSum, int]] = []
    rest: list[Expr] = []
    for factor in sympy.Mul.make_args(product):
        base, power = factor.as_base_exp()
        if isinstance(factor, sympy.exp) and not factor.args[0].is_number:
            exponents += _terms(factor.args[0])
        elif isinstance(factor, sympy.Pow) and isinstance(base, sympy.exp) and power.is_Integer and power > 0:
            exponents += _terms(base.args[0] * power)
        elif _is_total(base) and power.is_Integer and power < 0:
            totals.append((base, -int(power)))
        else:
            rest.append(factor)
    for total, times in totals:
        family = total.summand.args[0]
        found = [(t, at) for t in exponents for at in t.free_symbols if family.xreplace({total.bound: at}) == t][:times]
        for term, at in found:
            exponents.remove(term)
            rest.append(Softmax(term, at, total.args[2]))
        rest.append(total ** (len(found) - times))
    return sympy.Mul(*rest, *(sympy.exp(t) for t in exponents))


def _is_total(base: Expr) -> bool:
    return isinstance(base, AxisSum) and isinstance(base.summand, sympy.exp) and base.summand.has(base.bound)


def _terms(exponent: Expr) -> list[Expr]:
    """The terms of a sum, those with a whole number in front so often."""
    found: list[Expr] = []
    for term in sympy.Add.make_args(exponent):
        number, rest = term.as_coeff_Mul()
        found += [rest] * int(number) if number.is_Integer and 0 < number < 5 else [term]
    return found
