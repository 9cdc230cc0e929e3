"""Activations without a closed form in powers of their argument: kept as functions with a name, means to be computed.

A function of a dense layer and ε = n^(−1/2) is a sum; its terms number(ε) · g(u), with g no sum of powers and signs of
u, enter limits as Gaussian means of g, which have to exist at every V: `growth` asks for that where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy
from sympy import Dummy, Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import GaussMean
from tplimits.program.nodes.functions import elementary, softplus, step
from tplimits.regimes.depth.algebra.laurent import MeanSeries, laurent
from tplimits.regimes.depth.algebra.means import U
from tplimits.regimes.depth.algebra.products import EPS

#: the terms of a function; what has moments only together is one of them
Apart = Callable[[Expr], Sequence[Expr]]


def multiplied_out(function: Expr) -> Sequence[Expr]:
    """The terms of a function that has no poles."""
    return sympy.Add.make_args(with_whole_exponentials(function))


def separated(function: Expr, apart: Apart = multiplied_out) -> tuple[dict[Expr, Expr], Expr]:
    """The terms g(u) that have to be named, with their coefficients, and the rest of a function."""
    named: dict[Expr, Expr] = {}
    rest = []
    for term in apart(function):
        number, g = sympy.factor_terms(term).as_independent(U, as_Add=False)
        if g.has(EPS) or in_powers(g):
            rest.append(term)
            continue
        straight, g = _apart(g)
        rest.append(number * straight)
        named[g] = named.get(g, S.Zero) + number
    return {g: c for g, c in named.items() if c != 0}, sympy.Add(*rest) if named else function


def with_whole_exponentials(function: Expr) -> Expr:
    """A function as a sum: e^(−1000 (u − 1)²) is a number where e^(−1000) and e^(2000 u) have no double.

    >>> with_whole_exponentials((1 + U) * sympy.exp(-((U - 1) ** 2)))
    u*exp(-u**2 + 2*u - 1) + exp(-u**2 + 2*u - 1)
    """
    return sympy.expand(function, power_exp=False)


def _apart(g: Expr) -> tuple[Expr, Expr]:
    """A function as powers of u and what is even or odd: softplus(x) is x/2 beside an even function.

    >>> from tplimits.program.nodes.functions import softplus
    >>> _apart(U * softplus(U))
    (u**2/2, u*(-u/2 + softplus(u)))
    """
    factors = [f for f in sympy.Mul.make_args(g) if isinstance(f, softplus) and in_powers(f.args[0])]
    if len(factors) != 1 or not in_powers(g / factors[0]):
        return S.Zero, g
    half = factors[0].args[0] / 2
    return with_whole_exponentials(g / factors[0] * half), g / factors[0] * (factors[0] - half)


def moved(function: Expr, limit: int, mean: MeanSeries | None) -> tuple[Expr, int] | None:
    """A function of `U` and ε, as relu(u + ε), by its Taylor series in ε, and the order up to which it is known.

    None where it has none of functions of u.

    The first term that is left out may be large near a kink, where u is with a probability of its own order: that
    changes means by what a δ in the next derivative would, so that the series ends before the first δ.

    >>> from tplimits.program.nodes.functions import relu
    >>> moved(EPS * relu(U + EPS), 4, None)
    (ε**2*step(u) + ε*relu(u), 2)
    """
    found, cut = [], limit
    terms = [term.as_independent(U, as_Add=False) for term in sympy.Add.make_args(with_whole_exponentials(function))]
    if not any(g.has(EPS) for _, g in terms):
        return None
    for number, g in terms:
        series = laurent(number, EPS, limit, mean)
        lowest = 0 if series is None or series.lowest is None else series.lowest
        for k in range(limit - lowest + 1 if g.has(EPS) else 1):
            derivative = (
                with_whole_exponentials(g.diff(EPS, k).xreplace({EPS: S.Zero})) if k else g.xreplace({EPS: S.Zero})
            )
            if derivative.has(S.NaN, S.ComplexInfinity, S.Infinity, sympy.Derivative, sympy.Subs):
                return None
            if derivative.has(sympy.DiracDelta):
                cut = min(cut, lowest + k - 1)
                break
            found.append(number * EPS**k * derivative / sympy.factorial(k))
    return sympy.Add(*found), cut


def moves_too_far(where: str, function: Expr, cut: int) -> NoLimitError:
    """The refusal of a function whose series ends before the orders that are needed."""
    return NoLimitError(
        f"{where}: the activation `{function.xreplace({EPS: 1 / sympy.sqrt(Symbol('n'))})}` has a kink or jump that "
        f"moves with n by so much that the density of u at it enters at order n^({-S(cut + 1) / 2}); that is not "
        "covered. Move it by less, or divide the function by sqrt(n) where it stands."
    )


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
