"""A softmax of logits and constants as constant weights times what the logits change: e^(y + d)/Σ e^(y′ + d′).

It is the same for d and d + c, so that the constants of a row enter as p = e^d/Σ e^d′ alone, a number between 0 and 1
whatever their size: p e^y/Σ p′ e^y′.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Symbol

from tplimits.program.nodes.entries import AxisSum

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.data import Data


def in_rows(body: Expr, data: Data, written: Callable[[Expr], Expr]) -> Expr:
    """A body with p in the place of constants in every softmax."""
    return body.replace(lambda e: e.is_Mul, lambda e: sympy.Mul(*normalised(e.args, data, written)))


def normalised(factors: Sequence[Expr], data: Data, written: Callable[[Expr], Expr]) -> list[Expr]:
    """Factors of a product with p in the place of constants inside of exp and of the sum that it is divided by."""
    found = list(factors)
    weights = [f for f in found if isinstance(f, sympy.exp)]
    totals = [f for f in found if f.is_Pow and f.exp.is_Integer and f.exp < 0 and isinstance(f.base, AxisSum)]
    if not (len(weights) == len(totals) == 1):
        return found
    (weight,), (total,) = weights, totals
    own, fixed = _split(weight.exp, data, written)
    if fixed == 0:
        return found
    try:
        shifted = _summed(total.base, lambda e: _weighted(e, total.base, data, written))
    except ValueError:  # terms that are no e^(y + d)
        return found
    places = [i for i, f in enumerate(found) if f in (weight, total)]
    # (e^d/Σ e^d′)^k = (Σ e^(d′ − d/k))^(−k), one expression of data: neither e^d nor the sum is a number of its own
    power = -total.exp
    found[places[0]], found[places[1]] = sympy.exp(own), shifted**total.exp
    return [*found, _rows(total.base, fixed / power, data, written) ** total.exp]


def _weighted(summand: Expr, total: Expr, data: Data, written: Callable[[Expr], Expr]) -> Expr:
    """p e^y for e^(y + d)."""
    own, fixed = _split(_exponent(summand), data, written)
    return sympy.exp(own) / _rows(total, fixed, data, written)


def _rows(total: Expr, fixed: Expr, data: Data, written: Callable[[Expr], Expr]) -> Expr:
    """Σ e^(d′ − d), its indices its own."""
    apart = _renamed(_summed(total, lambda e: _split(_exponent(e), data, written)[1]))
    return _summed(apart, lambda e: sympy.exp(e - fixed))


def _exponent(summand: Expr) -> Expr:
    if not isinstance(summand, sympy.exp):
        raise ValueError
    return summand.exp


def _split(exponent: Expr, data: Data, written: Callable[[Expr], Expr]) -> tuple[Expr, Expr]:
    """y and d of y + d."""
    terms = sympy.Add.make_args(sympy.expand(written(exponent)))
    fixed = [t for t in terms if data.is_data(t)]
    return (sympy.Add(*(t for t in terms if t not in fixed)), sympy.Add(*fixed)) if fixed else (exponent, sympy.S.Zero)


def _summed(total: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """A sum over axes with another summand."""
    if isinstance(total, AxisSum):
        return AxisSum(_summed(total.summand, change), *total.args[1:])
    return change(total)


def _renamed(total: Expr) -> Expr:
    """A sum over axes with indices of its own."""
    if not isinstance(total, AxisSum):
        return total
    bound = Symbol(f"{total.bound.name}′", **total.bound.assumptions0)
    return AxisSum(_renamed(total.summand).xreplace({total.bound: bound}), bound, total.args[2])
