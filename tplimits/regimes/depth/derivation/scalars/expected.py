"""Constants that are means over a standard normal, as in c = 1/E[φ(g)²]: in closed form, or as E[…] by its number.

A mean without n is exact for piecewise polynomials with their kink at zero (E g^2k, E|g|^k), and stays as it is written
otherwise: its number is a quadrature.  A mean with n is expanded under the mean sign,

    E f(g, ε) ~ Σ_k ε^k E ∂_ε^k f(g, 0)/k!,   ε = n^(−1/2),

where f(·, ε) has a mean for small ε (`limit.hypotheses`): no pole, no root of a negative number, no
exponential that outgrows the density.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from math import factorial

import sympy
from sympy import Expr, Rational, S

from tplimits.errors import EvaluationError, NoLimitError
from tplimits.law.gaussians import Gaussians
from tplimits.law.hypotheses.constants import first_moment, infinite, opened, outermost, unseen
from tplimits.law.hypotheses.sharp import sharp_mean
from tplimits.law.hypotheses.tails import Growth
from tplimits.program.nodes.entries import GaussMean, N, normal_symbol
from tplimits.program.nodes.evaluate import constant_mean
from tplimits.program.nodes.functions import step
from tplimits.regimes.depth.algebra.activations import SIGN, Basis, shown, signed
from tplimits.regimes.depth.algebra.coefficients import ROOT
from tplimits.regimes.depth.algebra.laurent import Series
from tplimits.regimes.depth.algebra.means import U
from tplimits.regimes.depth.algebra.products import EPS

#: n^(−1/2) "for n large enough", where the size of an integrand is judged
_SMALL = Rational(1, 10**6)


def closed_means(expr: Expr) -> Expr:
    """An expression with its means in closed form where they have one; those that need a series are left.

    >>> from tplimits.program.nodes.functions import relu
    >>> g = sympy.Symbol("g", real=True)
    >>> closed_means(3 * GaussMean(relu(g) ** 2, g)), closed_means(GaussMean(sympy.tanh(g) ** 3, g))
    (3/2, 0)
    """
    if not expr.has(GaussMean):
        return expr
    if not isinstance(expr, GaussMean):
        return expr.func(*(closed_means(a) for a in expr.args))
    integrand, variable = expr.args
    mean = GaussMean(closed_means(integrand), variable)
    _insist_on_mean(mean)
    body = _body(mean)
    polynomial = sympy.expand(body)
    if polynomial.is_polynomial(U, SIGN) or not body.has(EPS):
        return _closed(polynomial if polynomial.is_polynomial(U, SIGN) else body)
    return mean


def mean_series(mean: GaussMean, series: Callable[[Expr], Series]) -> Series:
    """The expansion of a mean in ε, from the function that expands its integrand."""
    found = series(_body(mean))
    terms = {k: _closed(sympy.expand(c)) for k, c in found.terms.items()}
    return Series({k: c for k, c in terms.items() if c != 0}, found.cut)


def _body(mean: GaussMean) -> Expr:
    """The integrand in U, kinks at zero written through SIGN; other kinks may stay where they do not move with n."""
    integrand = mean.args[0].xreplace({mean.args[1]: U})
    try:
        return signed(integrand, stays=lambda argument: not argument.has(EPS))
    except NoLimitError as error:
        raise NoLimitError(f"tp.expect: {error}") from None


def _closed(body: Expr) -> Expr:
    """The mean of a function of U and SIGN without ε."""
    if body.is_polynomial(U, SIGN):
        terms = sympy.Poly(body, U, SIGN).terms() if body.has(U, SIGN) else [((0, 0), body)]
        bases = ((Basis(power, signs % 2 == 1), c) for (power, signs), c in terms)
        return sympy.Add(*(c * _absolute(b) for b, c in bases if not b.odd))
    mirrored = {U: -U, SIGN: -SIGN}
    even = [t for t in sympy.Add.make_args(sympy.expand(body)) if sympy.expand(t.xreplace(mirrored) + t) != 0]
    if all(t.is_polynomial(U, SIGN) for t in even):  # u gelu(u) is u²/2 and an odd function
        return _closed(sympy.Add(*even))
    variable = normal_symbol(1 + max((int(m.args[1].name.split("′")[1]) for m in body.atoms(GaussMean)), default=0))
    # |u| under a root, a logarithm or a broken power stays as it is, which the hypotheses read
    integrand = body.xreplace({U * SIGN: sympy.Abs(variable)}).xreplace({SIGN: 2 * step(variable) - 1, U: variable})
    mean = GaussMean(integrand, variable)
    if not mean.free_symbols:
        # where there is no number its own refusal comes when it is asked for
        with contextlib.suppress(EvaluationError):
            return S.Zero if constant_mean(integrand, variable).value == 0 else mean
    return mean


def _absolute(basis: Basis) -> Expr:
    """E u^power sgn(u)^sign of a standard normal, for an even function."""
    if not basis.sign:
        return sympy.factorial2(basis.power - 1) if basis.power else S.One
    half = (basis.power - 1) // 2
    return ROOT * 2**half * factorial(half)


def insist_on_means(bodies: Iterable[Expr]) -> None:
    """Refuse constants that are means which do not exist, whatever else is done with them."""
    for mean in {m for body in bodies for m in outermost(body)}:
        _insist_on_mean(mean.xreplace({N: EPS**-2}))


def _insist_on_mean(mean: GaussMean) -> None:
    """Refuse a mean that does not exist at large n, or is not seen to."""
    if told := sharp_mean(mean.xreplace({EPS: 1 / sympy.sqrt(N)})):
        raise NoLimitError(told)
    gaussians = Gaussians()
    found = first_moment(opened(GaussMean(mean.args[0].xreplace({EPS: _SMALL}), mean.args[1]), gaussians), gaussians)
    if not found.established:
        what = f"tp.expect of `{shown(mean.args[0])}`"
        raise NoLimitError(infinite(what, found) if found.kind is Growth.INFINITE else unseen(what))
