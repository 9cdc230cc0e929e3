"""Functions of a dense layer as sums of basis functions u^k and u^k·sgn(u), and the Gaussian moments of these.

Every function that is piecewise polynomial with its kink at zero, once expanded in ε = n^(−1/2), is such a sum: shaped
ReLUs with slopes 1 + c/√n at once, shaped smooth functions such as s·tanh(x/s) with s ~ √n by their Taylor series.

Moments of two tokens a, b with covariance V: for polynomials by Isserlis' theorem, for |u| by the kernel N (`folded`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from math import factorial
from typing import NamedTuple

import sympy
from sympy import Dummy, Expr, Rational, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.law.closed_forms.isserlis import counted_pairings
from tplimits.program.nodes.entries import GaussMean
from tplimits.program.nodes.functions import elementary, step
from tplimits.program.nodes.parity import parity
from tplimits.program.parts import remembered
from tplimits.regimes.depth.algebra.laurent import MeanSeries, expansion, laurent
from tplimits.regimes.depth.algebra.means import U, of_columns
from tplimits.regimes.depth.algebra.named import Apart, in_powers, moved, multiplied_out, separated
from tplimits.regimes.depth.algebra.products import EPS, Factors

#: the sign of the argument of a function of a dense layer
SIGN = Symbol("sgn(u)", real=True)


class Basis(NamedTuple):
    """u^power, times sgn(u) if `sign`, times a function of u that has no such form."""

    power: int
    sign: bool
    function: Expr = S.One

    @property
    def odd(self) -> bool | None:
        """Whether it changes its sign with u; None where it is neither odd nor even."""
        own = parity(self.function, U)
        return None if own is None else own * (-1) ** (self.power + self.sign) < 0

    def __str__(self) -> str:
        own = "" if self.function == 1 else f"·{self.function}"
        return f"{'s' if self.sign else 'p'}{self.power}{own}"

    @property
    def expr(self) -> Expr:
        """The function of `U`."""
        return U**self.power * (sympy.sign(U) if self.sign else 1) * self.function


def odd_together(bases: Iterable[Basis]) -> bool:
    """Whether a product of functions, all of one Gaussian vector, has mean zero because it is odd."""
    parities = [b.odd for b in bases]
    return None not in parities and sum(map(bool, parities)) % 2 == 1


CONSTANT, LINEAR = Basis(0, False), Basis(1, False)


def components(
    function: Expr, limit: int, mean: MeanSeries | None = None, apart: Apart = multiplied_out
) -> tuple[list[tuple[Expr, Basis]], int | None]:
    """A function of `U` and ε as Σ coefficient(ε) · basis, and the order in ε up to which it is known.

    What has no such form, a tanh or a kink away from zero, is a basis function of its own.  NoLimitError where ε stands
    inside of one.

    >>> from tplimits.program.nodes.functions import relu
    >>> components(relu(U), 2)
    ([(1/2, Basis(power=1, sign=False, function=1)), (1/2, Basis(power=1, sign=True, function=1))], None)
    """
    # functions without such a form first: they are basis functions under a name, and the rest is piecewise polynomial
    named, function = separated(function, apart)
    try:
        polynomial, cut = _in_powers(function, limit, mean)
    except NoLimitError:
        series = moved(function, limit, mean)
        if series is None:
            raise
        whole = sympy.Add(series[0], *(c * g for g, c in named.items()))
        return components(whole, limit, mean, apart)[0], series[1]
    found: dict[Basis, Expr] = {}
    for (power, signs), coefficient in sympy.Poly(polynomial, U, SIGN).terms():
        basis = Basis(power, signs % 2 == 1)
        found[basis] = found.get(basis, S.Zero) + coefficient
    ordered = [(c, b) for b, c in sorted(found.items(), key=lambda item: item[0]) if c != 0]
    return ordered + [(c, Basis(0, False, g)) for g, c in named.items()], cut


def _in_powers(function: Expr, limit: int, mean: MeanSeries | None) -> tuple[Expr, int | None]:
    """A function as a polynomial in u and its sign, and the order in ε up to which it is known."""
    body = signed(function)
    # 1/sgn(u) is sgn(u): of u²/|u| as of u sgn(u) nothing is divided by
    polynomial = sympy.expand(sympy.expand(body).replace(1 / SIGN, SIGN))
    cut = None
    # ε inside of a smooth function, s·tanh(u/s): its Taylor series in ε is a polynomial in u, order by order
    if not _polynomial(polynomial):
        polynomial, cut = expansion(body, limit, mean)
        if not _polynomial(polynomial):
            raise NoLimitError(f"the activation `{shown(function)}` has no expansion in powers of its argument.")
    return polynomial, cut


def signed(function: Expr, stays: Callable[[Expr], bool] = lambda argument: False) -> Expr:
    """A function of `U` with the sign of u in the place of its jumps and kinks at zero.

    NoLimitError where it has others, but for those with an argument that `stays`.
    """
    constants = {f: Dummy(real=True) for f in function.atoms(sympy.Function, GaussMean) if not f.has(U)}  # |c|: no kink
    body = elementary(function.xreplace(constants)).xreplace({d: f for f, d in constants.items()})
    while far := {jump for jump in body.atoms(step) if _is_far(jump.args[0])}:
        # passed with a probability below every power of n, each on the side of u = 0; others may hold these
        body = body.xreplace({j: step(_sign(j.args[0].xreplace({U: S.Zero}), f"`{shown(function)}`")) for j in far})
    for jump in sorted(body.atoms(step), key=sympy.default_sort_key):
        argument = jump.args[0]
        if not argument.has(U):
            continue
        at_zero = argument.is_polynomial(U) and sympy.degree(argument, U) == 1 and argument.xreplace({U: S.Zero}) == 0
        if not at_zero and stays(argument):
            continue
        if at_zero and (bent := _with_modulus(body, jump)) is not None:
            body = bent
            continue
        # step(a u) = (1 + sgn(a) sgn(u))/2: all jumps at 0 through one sign, whose square is 1
        body = body.xreplace({jump: (1 + _side(argument, function) * SIGN) / 2})
    return body


def _with_modulus(body: Expr, jump: Expr) -> Expr | None:
    """A body with a u step(a u) = (a u + |a| |u|)/2 where the sign of a number a is not known; None elsewhere.

    A kink, as of max(u, c u), asks for no sign, and a jump does: at a = 0 it has another value.
    """
    argument = sympy.expand(jump.args[0])
    slope, power = argument.coeff(U, 1).as_independent(EPS, as_Add=False)
    if power.as_base_exp()[0] not in (S.One, EPS) or slope.is_positive or slope.is_negative:
        return None
    name = Dummy(real=True)
    off, *on = reversed(sympy.Poly(body.xreplace({jump: name}), name).all_coeffs())
    # powers of a step are the step
    share = sympy.cancel(sympy.Add(*on) / argument)
    if not _polynomial(share):
        return None
    return sympy.Add(off, share * (argument + sympy.Abs(slope) * power * U * SIGN) / 2)


def _side(argument: Expr, function: Expr) -> int:
    """The sign of a where the argument of a jump is a·u; NoLimitError for one that jumps elsewhere.

    >>> _side((EPS - 3) * U, S.Zero)
    -1
    """
    name = f"the activation `{shown(function)}`"
    if not argument.is_polynomial(U) or sympy.degree(argument, U) > 1:
        raise NoLimitError(f"{name} has a kink away from zero; only kinks at u = 0 have moments here.")
    slope, offset = sympy.expand(argument).coeff(U, 1), sympy.expand(argument).coeff(U, 0)
    if offset != 0:
        raise NoLimitError(
            f"{name} has a kink away from zero, at u = {shown(sympy.cancel(-offset / slope))}; only kinks at u = 0 "
            "have moments here. Take what is added inside the activation out of it."
        )
    return _sign(slope, name)


def _is_far(argument: Expr) -> bool:
    """Whether an argument a·u + b of a jump is 0 at a u that grows with n."""
    if not (argument.has(EPS) and argument.is_polynomial(U) and sympy.degree(argument, U) == 1):
        return False
    slope, offset = sympy.Poly(argument, U).all_coeffs()
    place = laurent(offset / slope, EPS, 0)
    return place is not None and place.lowest is not None and place.lowest < 0


def _sign(expr: Expr, name: str) -> int:
    """The sign for n large enough: that of the leading term, as of 1 + c/√n."""
    series = laurent(expr, EPS, 2)
    first = expr if series is None or series.lowest is None else sympy.factor(series.terms[series.lowest])
    if first.is_positive or first.is_negative:
        return 1 if first.is_positive else -1
    unknown = f"`{shown(first)}`"
    raise NoLimitError(
        f"{name}: the sign of {unknown} is not known, and with it the side of the kink; take the constant out of the "
        "activation, as in c*tp.relu(h) for c > 0, or give it a number by .bind."
    )


def _polynomial(expr: Expr) -> bool:
    return bool(expr.is_polynomial(U, SIGN))


def shown(function: Expr) -> Expr:
    """A function as a message shows it."""
    return function.xreplace({EPS: 1 / sympy.sqrt(Symbol("n"))})


class Moment(NamedTuple):
    """number · √(2/π)^roots · Π factors."""

    number: Rational
    roots: int
    factors: Factors

    def times(self, other: Moment) -> Moment:
        """The product."""
        return Moment(self.number * other.number, self.roots + other.roots, self.factors + other.factors)


Column = tuple[tuple[Basis, int], ...]


@remembered(1 << 12)
def moment(column: Column) -> tuple[Moment, ...] | None:
    """E Π basis(u_token) for one Gaussian column: a closed form, a mean with a name at one or two tokens, or None."""
    merged: dict[int, Basis] = {}
    for basis, token in column:
        old = merged.get(token, Basis(0, False))
        # two functions of one neuron at one token are one function: their product is no independent factor
        merged[token] = Basis(old.power + basis.power, old.sign != basis.sign, old.function * basis.function)
    if odd_together(merged.values()):
        return ()
    if all(b.function == 1 for b in merged.values()):
        closed = _closed(merged)
        if closed is not None:
            return closed
    # means at three tokens and more have no name here: a factor stands at one or two
    if len(merged) > 2:
        return None
    for (token, basis), other in zip(merged.items(), reversed(merged.items()), strict=True):
        halves = _half(basis, other[1].odd) if len(merged) == 2 else []
        if halves:
            parts = [(c, moment(((half, token), other[::-1])) or ()) for c, half in halves]
            return tuple(m._replace(number=c * m.number) for c, found in parts for m in found)
    return (Moment(S.One, 0, (of_columns(tuple(b.expr for b in merged.values()), tuple(merged)),)),)


def _half(basis: Basis, odd: bool | None) -> list[tuple[Rational, Basis]]:
    """The odd or even half of a function that is neither, if a sum of powers: beside an odd u′, gelu is u/2."""
    if odd is None or basis.odd is not None:
        return []
    own = elementary(basis.expr)
    half = sympy.expand(own - own.xreplace({U: -U}) if odd else own + own.xreplace({U: -U})) / 2
    found = components(half, 0)[0] if in_powers(half) else []
    return found if all(c.is_Rational for c, _ in found) else []


def _closed(merged: dict[int, Basis]) -> tuple[Moment, ...] | None:
    """The moment of powers and signs, or None where no closed form is known here."""
    signed = [(t, b) for t, b in merged.items() if b.sign]
    plain = [t for t, b in merged.items() if not b.sign and b.power]
    if not signed:
        found = counted_pairings(tuple(merged[t].power for t in plain))
        return tuple(
            Moment(sympy.Integer(count), 0, tuple(("V", (plain[i], plain[j]), 0) for i, j in pairs))
            for pairs, count in found.items()
        )
    if len(signed) == 1 and not plain:
        token, basis = signed[0]
        # E |u|^(2k+1) = 2^k k! √(2/π) σ^(2k+1): odd powers times the sign are all that is left here, even ones vanish
        # above
        half = (basis.power - 1) // 2
        return (Moment(sympy.Integer(2**half * factorial(half)), 1, (("s", (token,), 0),) * basis.power),)
    if len(signed) == 2 and not plain and all(b.power == 1 for _, b in signed):
        at = (signed[0][0], signed[1][0])
        return Moment(S.One, 0, (("V", at, 0),)), Moment(S.One, 2, (("N", at, 0),))
    return None


@remembered(1 << 12)
def cumulant(column: Column) -> tuple[Moment, ...] | None:
    """The joint cumulant of the functions of one column, or None."""
    found: list[Moment] = []
    for blocks in partitions(tuple(range(len(column)))):
        # cumulants from moments: Möbius function of the lattice of partitions
        sign = (-1) ** (len(blocks) - 1) * factorial(len(blocks) - 1)
        terms = [Moment(sympy.Integer(sign), 0, ())]
        for block in blocks:
            factor = moment(tuple(column[i] for i in block))
            if factor is None:
                return None
            terms = [a.times(b) for a in terms for b in factor]
        found += terms
    return tuple(found)


def partitions(
    items: tuple[int, ...], allowed: Callable[[tuple[int, ...]], bool] = lambda block: True
) -> Iterator[list[tuple[int, ...]]]:
    """All ways to cut a set into blocks that are allowed.

    >>> list(partitions((1, 2)))
    [[(1, 2)], [(1,), (2,)]]
    """
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for size in range(len(rest), -1, -1):
        for others in combinations(rest, size):
            if allowed((first, *others)):
                for blocks in partitions(tuple(i for i in rest if i not in others), allowed):
                    yield [(first, *others), *blocks]
