"""Activations without a closed form in powers of their argument: kept as functions with a name, means to be computed.

A function of a dense layer and ε = n^(−1/2) is a sum; its terms number(ε) · g(u), with g no sum of powers and signs of
u, enter limits as Gaussian means of g.  These exist for every V where g grows at most like exp(c|u|).
"""

from __future__ import annotations

import sympy
from sympy import Dummy, Expr, S

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import GaussMean
from tplimits.program.nodes.functions import elementary, step
from tplimits.regimes.depth.derivation.algebra import EPS
from tplimits.regimes.depth.derivation.means import U

_POLES = (sympy.tan, sympy.asin, sympy.acos, sympy.atanh, sympy.DiracDelta)


def separated(function: Expr) -> tuple[dict[Expr, Expr], Expr]:
    """The terms g(u) that have to be named, with their coefficients, and the rest of a function.

    NoLimitError where a named one may have no second moment.

    >>> separated(EPS * sympy.tanh(U) + 2 * U)
    ({tanh(u): ε}, 2*u)
    """
    named: dict[Expr, Expr] = {}
    rest = []
    for term in sympy.Add.make_args(sympy.expand(function)):
        number, g = term.as_independent(U, as_Add=False)
        if g.has(EPS) or in_powers(g):
            rest.append(term)
        else:
            insist_on_moments(g)
            named[g] = named.get(g, S.Zero) + number
    return {g: c for g, c in named.items() if c != 0}, sympy.Add(*rest) if named else function


def in_powers(function: Expr) -> bool:
    """Whether a function is a sum of u^k and u^k·sgn(u), as far as its form tells."""
    constants = {f: Dummy(real=True) for f in function.atoms(sympy.Function, GaussMean) if not f.has(U)}
    body = elementary(function.xreplace(constants))
    for jump in body.atoms(step):
        (argument,) = jump.args
        if not argument.is_polynomial(U) or sympy.degree(argument, U) > 1 or argument.subs(U, 0) != 0:
            return False
        body = body.xreplace({jump: Dummy()})
    return bool(sympy.expand(body).is_polynomial(U))


def insist_on_moments(function: Expr) -> None:
    """Refuse poles, and growth beyond exp(c|u|)."""
    poles = [f for f in function.atoms(*_POLES) if f.has(U)]
    poles += [f for f in function.atoms(sympy.log) if f.has(U) and not f.args[0].is_positive]
    poles += [p for p in function.atoms(sympy.Pow) if p.base.has(U) and _may_be_singular(p)]
    if poles:
        raise NoLimitError(
            f"the activation `{function}` may have a pole or no real value, in `{poles[0]}`, and with it no moments; "
            "add a positive number inside."
        )
    fast = [e for e in function.atoms(sympy.exp, sympy.sinh, sympy.cosh) if not _slow(e)]
    if fast:
        raise NoLimitError(
            f"the activation `{function}` holds `{fast[0]}`, whose moments are infinite at large V, or not known to be "
            "finite; let its argument grow at most linearly."
        )


def _may_be_singular(power: sympy.Pow) -> bool:
    if power.exp.has(U):
        return not power.base.is_positive
    if power.exp.is_nonnegative:
        return not (power.exp.is_Integer or power.base.is_nonnegative)
    return not power.base.is_positive


def _slow(call: Expr) -> bool:
    """Whether exp(f) grows at most like exp(c|u|)."""
    argument = call.args[0]
    if not argument.has(U) or isinstance(argument, (sympy.tanh, sympy.erf, sympy.sin, sympy.cos, sympy.atan)):
        return True
    if argument.is_polynomial(U):
        degree = sympy.degree(argument, U)
        falls = degree % 2 == 0 and bool(sympy.LC(argument, U).is_negative)
        return bool(degree <= 1) or (isinstance(call, sympy.exp) and falls)
    linear = elementary(argument)
    linear = linear.xreplace(dict.fromkeys(linear.atoms(step), S.One))
    return bool(linear.is_polynomial(U) and sympy.degree(linear, U) <= 1)
