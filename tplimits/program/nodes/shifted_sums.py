"""Sums of exponentials over finite axes without overflow: Σ eᵘ as e^m Σ e^(u − m), m the largest u of the sum.

In a product, a power or a logarithm the factors e^m are put together with its other exponentials, so that

    e^a e^b / (Σ eᵘ)²  is  e^(a + b − 2m) / (Σ e^(u − m))²

and products of several softmaxes, as gradients of attention hold, are numbers where each of their factors is none.
"""

from __future__ import annotations

import sympy
from sympy import Expr, S

from tplimits.program.nodes.entries import AxisSum, Kron
from tplimits.program.nodes.functions import maximum
from tplimits.program.parts import rebuilt, remembered


class AxisLargest(AxisSum):
    """The largest value over a finite axis: (function, bound index, axis name as a Symbol).

    Made when numbers are taken: the derivative of a sum, which it would inherit, is not its own.
    """

    def _eval_derivative(self, symbol: sympy.Symbol) -> Expr:
        raise TypeError(f"the largest value over `{self.axis}` is taken of numbers alone, and not differentiated")


@remembered(1 << 10)
def with_shifts(body: Expr) -> Expr:
    """A body with the largest exponent taken out of every sum of exponentials over finite axes.

    >>> from tplimits.program.nodes.entries import NO_NEURON, Entry, axis_symbol
    >>> i, axis = axis_symbol("i"), sympy.Symbol("i")
    >>> u = Entry(S.Zero, NO_NEURON, i)
    >>> with_shifts(1 / AxisSum(sympy.exp(u), i, axis)).atoms(AxisLargest)
    {AxisLargest(Entry(0, ·, i), i, i)}
    """
    if not body.args or not body.has(AxisSum) or not body.has(sympy.exp):
        return body
    if isinstance(body, (sympy.Mul, sympy.Pow)):
        return _product(body)
    if isinstance(body, sympy.log) and (parts := _apart(body.args[0])) is not None:
        largest, rest = parts
        return largest + sympy.log(rest)
    return rebuilt(body, [with_shifts(a) for a in body.args])


def _product(product: Expr) -> Expr:
    exponent, rest = S.Zero, []
    for factor in sympy.Mul.make_args(product):
        base, power = (factor.base, factor.exp) if factor.is_Pow else (factor, S.One)
        if isinstance(base, sympy.exp):
            exponent += power * with_shifts(base.args[0])
        elif power.is_number and (parts := _apart(base)) is not None:
            exponent += power * parts[0]
            rest.append(parts[1] ** power)
        else:
            rest.append(rebuilt(factor, [with_shifts(a) for a in factor.args]) if factor.args else factor)
    return sympy.Mul(*rest, sympy.exp(exponent))


def _apart(total: Expr) -> tuple[Expr, Expr] | None:
    """m and T′ of a sum T = e^m T′ of exponentials over axes, numbers beside them or not; None of others."""
    terms = [_term(t) for t in sympy.Add.make_args(total)]
    # what is not shifted itself has nothing to be taken out of
    if not any(t.has(AxisSum) and exponent is not None for t, exponent in terms):
        return None
    exponents = [S.Zero if e is None else e for _, e in terms]
    largest = exponents[0]
    for other in exponents[1:]:
        largest = maximum(largest, other)
    shifted = []
    for t, e in terms:
        shifted.append(with_shifts(t) * sympy.exp(-largest) if e is None else _times_exp(t, -largest))
    return largest, sympy.Add(*shifted)


def _term(term: Expr) -> tuple[Expr, Expr | None]:
    """A summand, and the largest exponent in it; None where it has no exponential."""
    if isinstance(term, AxisSum) and not isinstance(term, AxisLargest):
        _, inner = _term(term.summand)
        # a sum whose summands data put at their places is one of few of them
        if inner is None or term.summand.has(Kron):
            return term, None
        return term, AxisLargest(inner, *term.args[1:])
    factors = sympy.Mul.make_args(term)
    if (inner := _only_sum(factors)) is not None:
        return term, _term(inner)[1]
    powers = [f.args[0] for f in factors if isinstance(f, sympy.exp)]
    # what has its own exponentials divided by already, as a weight of a softmax, is of order 1 as a whole
    if any(f.has(sympy.exp) for f in factors if not isinstance(f, sympy.exp)):
        return term, None
    return term, with_shifts(sympy.Add(*powers)) if powers else None


def _only_sum(factors: tuple[Expr, ...]) -> AxisSum | None:
    """The one factor that holds exponentials, where it is a sum over an axis beside others."""
    held = [f for f in factors if f.has(sympy.exp)]
    return held[0] if len(factors) > 1 and len(held) == 1 and isinstance(held[0], AxisSum) else None


def _times_exp(term: Expr, exponent: Expr) -> Expr:
    """A summand times an exponential, which its own exponentials take in."""
    if isinstance(term, AxisSum):
        return AxisSum(_times_exp(term.summand, exponent), *term.args[1:])
    factors = sympy.Mul.make_args(term)
    if (inner := _only_sum(factors)) is not None:
        return sympy.Mul(*(f for f in factors if f is not inner), _times_exp(inner, exponent))
    powers = [with_shifts(f.args[0]) for f in factors if isinstance(f, sympy.exp)]
    others = [with_shifts(f) for f in factors if not isinstance(f, sympy.exp)]
    return sympy.Mul(*others, sympy.exp(sympy.Add(*powers, exponent)))
