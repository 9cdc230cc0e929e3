"""Whether a limit exists: what a drift and a covariance of too low an order ask of the parameters.

Depth is proportional to width, so that E[V′ − V] and Cov(V′) must be of order 1/n: everything at ε⁰ and ε¹,
ε = n^(−1/2), has to vanish.  A deterministic change of order n^(−1/2) adds up over n layers; only mean-zero ones may be
as large.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy
import sympy
from sympy import Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.regimes.depth.algebra.means import definition_of
from tplimits.regimes.depth.algebra.vanishing import negligible, vanishes
from tplimits.regimes.depth.algebra.writing import defined
from tplimits.regimes.depth.derivation.not_covered import NO_CLOSED_FORM

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.forms import Form, Orders

#: sizes of what stands at ε⁰ and ε¹, in words
_ORDERS = {0: "1", 1: "n^(-1/2)"}


@dataclass(frozen=True)
class DepthVerdict:
    """What a derivation found: `kind` is "SDE", "ODE" or "none"; `conditions` are expressions that have to vanish."""

    kind: str
    sentence: str
    conditions: tuple[Expr, ...] = ()

    def __str__(self) -> str:
        return self.sentence


def refused(
    name: str, drift: Orders, covariance: Orders | None, arrays: Mapping[str, numpy.ndarray]
) -> DepthVerdict | None:
    """The verdict where something is of too low an order; None where nothing is."""
    for what, orders in (("E[V′ − V]", drift), ("Cov(V′)", covariance)):
        if orders is None:
            continue
        sums = [f for f in orders.opaque if any(label[0] == "Q" for label, _, _ in f)]
        if sums:
            return _opaque(name, what, sums[0])
        low = [
            (order, form) for order, form in sorted(orders.forms.items()) if order < 2 and not vanishes(form, arrays)
        ]
        unknown = min(orders.opaque.values(), default=None)
        # what has no closed form is of higher order than what is certainly too large: the verdict does not rest on it
        if low and (unknown is None or low[0][0] < unknown):
            return _too_large(name, what, low, arrays)
        if orders.opaque:  # what is known at its order is a part only
            return _opaque(name, what, min(orders.opaque, key=lambda f: orders.opaque[f]))
    return None


def insist_on_digits(name: str, drift: Orders, covariance: Orders, arrays: Mapping[str, numpy.ndarray]) -> None:
    """NoLimitError where rounding of numbers may be a part that shows."""
    for what, orders in (("E[V′ − V]", drift), ("Cov(V′)", covariance)):
        for lost in (f for f in orders.lost.values() if not negligible(f, orders.forms.values(), arrays)):
            shown, where = defined(lost, arrays)
            raise NoLimitError(
                f"`{name}`: {what} holds sums of numbers in which almost everything cancels: {shown}{where} is left, "
                "no more than rounding of these numbers may leave. Write the difference that is meant."
            )


def _too_large(name: str, what: str, low: list[tuple[int, Form]], arrays: Mapping[str, numpy.ndarray]) -> DepthVerdict:
    conditions = solved(c for _, form in low for c in form.terms.values())
    order, form = low[0]
    size = _ORDERS.get(order, f"n^({sympy.Rational(-order, 2)})")
    shown, where = defined(form, arrays)
    found = f"`{name}` has no limit of depth proportional to width: {what} has the term {shown}"
    found += (f" of order {size}" if order else " of order 1, not 1/n") + where
    factor = _growth(form) if what.startswith("E") and order == 0 else None
    if factor is not None:
        found += f", so that V grows like ({factor})^depth"
    elif 0 < order < 2 and what.startswith("E"):
        power = 1 - sympy.Rational(order) / 2
        grown = "sqrt(n)" if order == 1 else f"n^({power})"
        found += f": over a depth proportional to n it adds up to a drift of order {grown}"
    if conditions is None:
        repair = "it vanishes for no value of the parameters"
        repair += _advice(form) if what.startswith("E") and order == 0 else ""
        if factor is not None:
            repair += "; a branch is missing, or scaled so that V does not keep its size"
        return DepthVerdict("none", f"{found}; {repair}.")
    return DepthVerdict("none", f"{found}; needs {' and '.join(map(equation, conditions))}.", conditions)


def _growth(form: Form) -> Expr | None:
    """c where the form is (c − 1)·V^αβ."""
    if len(form.terms) == 1:
        (factors, coefficient), *_ = form.terms.items()
        if len(factors) == 1 and factors[0][0] == "V" and all(i < 0 for i in factors[0][1]):
            return sympy.expand(coefficient + 1)
    return None


def _advice(form: Form) -> str:
    if any(definition_of(label) for factors in form.terms for label, _, _ in factors):
        return (
            ": an activation stays nonlinear as n → ∞. Shape it, as in s*tp.tanh(x/s) with s of order sqrt(n), or "
            "divide its branch by sqrt(n)"
        )
    averages = any(i >= 0 for factors in form.terms for _, at, _ in factors for i in at)
    if not averages:
        return ""
    return (
        ": the tokens are mixed at order 1 in every layer, which collapses them. Shape the attention: add the identity "
        "and subtract the mean of the values, as in v + tp.sum(A * v, over=…) - tp.mean(v, over=…)"
    )


def _opaque(name: str, what: str, factors: tuple) -> DepthVerdict:
    closed = not any(label[0] == "Q" for label, _, _ in factors)
    why = (
        f"holds {NO_CLOSED_FORM}"
        if closed
        else "is no function of V: it holds other sums over the neurons of the state, so that V is not Markov"
    )
    return DepthVerdict("none", f"`{name}`: {what} {why}.")


def solved(coefficients: Iterable[Expr]) -> tuple[Expr, ...] | None:
    """The least equations under which all coefficients vanish, parameters taken as different from zero; None: there are
    none.

    >>> a, g = sympy.symbols("a g", real=True)
    >>> solved([g**2 * (1 - a) ** 2, g * a**2 - g])
    (a - 1,)
    """
    # a coefficient vanishes with its numerator; parameters are taken as different from zero, denominators too
    wanted = list(dict.fromkeys(_reduced(sympy.fraction(sympy.together(c))[0]) for c in coefficients))
    if S.One in wanted:
        return None
    symbols = sorted(
        set().union(*(w.free_symbols for w in wanted)) - {Symbol("m", integer=True, positive=True)}, key=str
    )
    if not symbols or not all(w.is_polynomial(*symbols) for w in wanted):
        return tuple(wanted)
    # the ideal of all coefficients: its basis is 1 where they have no zero in common
    basis = list(sympy.groebner(wanted, *symbols, order="lex").exprs)
    # g²(a − 1)² = 0 for g ≠ 0 is a − 1 = 0
    reduced = list(map(_reduced, basis))
    if S.One in reduced:
        return None
    if reduced != basis and len(reduced) > 1:
        reduced = list(sympy.groebner(reduced, *symbols, order="lex").exprs)
    return tuple(reduced)


def _reduced(expr: Expr) -> Expr:
    """What vanishes where an expression does: its factors that may be zero, each once; 1 where there is none."""
    try:
        factors = [f for f, _ in sympy.factor_list(expr)[1]]
    except sympy.PolynomialError:  # roots of constants, as in E|Y|^(3/2)
        factors = sympy.Mul.make_args(expr)
    return sympy.Mul(*(f for f in factors if not _nonzero(f)))


def _nonzero(factor: Expr) -> bool:
    if not factor.free_symbols:  # that it is zero has been seen
        return True
    return bool(factor.is_Symbol or factor.is_positive or factor.is_negative)


def equation(condition: Expr) -> str:
    """A condition as people write it.

    >>> a, b = sympy.symbols("λ γ", real=True)
    >>> equation(a**2 + b**2 - 1)
    'γ**2 + λ**2 = 1'
    """
    constant, rest = sympy.expand(condition).as_independent(*condition.free_symbols, as_Add=True)
    if rest.could_extract_minus_sign():
        constant, rest = -constant, -rest
    return f"{sympy.sstr(rest)} = {sympy.sstr(-constant)}"
