"""Functions of scalars near the limits of these: the side that is read there, zeros, and poles that are removable.

What a power of n tells of a scalar is how far it is from its limit.  So relu(s) with s → −1 is 0 at every large n, and
log s with s → 1 is of the order of s − 1; sin(s)/s with s → 0 is 1 − s²/6 + …, however small s is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sympy
from sympy import DiracDelta, Expr, S

from tplimits.law.hypotheses.taylor import INNER, Series, composed, powers, times
from tplimits.law.rules.small import led_in_powers_of_n
from tplimits.program.nodes import functions
from tplimits.program.nodes.branches import CONDITIONS, SIDES
from tplimits.program.nodes.entries import AxisSum, Entry, N, entries
from tplimits.program.nodes.scale import without_factor
from tplimits.program.parts import found, put_in, remembered

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: of order 1 whatever the argument
JUMPS = (functions.step, sympy.sign)
#: how many Taylor terms are read, and what small entries are multiplied by
_ORDERS, _STEP = 4, sympy.Dummy("t", real=True)
#: what decimals leave of sin(3.14159…)
_ROUNDING = 1e-14
#: a width at which what powers of n tend to has its sign
_FAR = sympy.Integer(10) ** 60


@dataclass(frozen=True)
class Side:
    """What a function with two sides is at the limits of scalars, and the condition that chooses it and its limit.

    `body` is None where the condition tends to 0.
    """

    body: Expr | None
    condition: Expr
    limit: Expr


def side_at(node: Expr, limits: Mapping[Entry, Expr]) -> Side | None:
    """The side of a function on which scalars are at their limits; None where it reads others.

    >>> s, n = Entry(sympy.Integer(0), sympy.Symbol("·")), sympy.Symbol("n", positive=True)
    >>> side_at(sympy.sign(sympy.sqrt(n) * s), {s: -S.One}).body
    -1
    """
    if type(node) not in CONDITIONS:
        return None
    condition = CONDITIONS[type(node)](*node.args)
    read = entries(condition)
    if not read or any(e not in limits for e in read):
        return None
    limit = condition.xreplace(dict(limits))
    far = limit.xreplace({N: _FAR})
    far = far if far.is_nonzero is not None else sympy.N(far)
    sign = 1 if far.is_positive else -1 if far.is_negative else 0
    return Side(SIDES[type(node)](*node.args)[sign < 0] if sign else None, condition, limit)


def at_sides(
    expr: Expr, limits: Mapping[Entry, Expr], decided: Callable[[Side], bool], stays: Callable[[Side], bool]
) -> Expr:
    """An expression with the sides that functions are on at the limits of scalars, where these stay on them.

    The larger of two is one of them and a kink where networks are on both sides: 1 + relu(s − 1) for max(s, 1).

    >>> s = Entry(sympy.Integer(0), sympy.Symbol("·"))
    >>> at_sides(1 + functions.maximum(s - 3, -1), {s: S.One}, lambda side: True, lambda side: True)
    0
    >>> at_sides(functions.maximum(s, 1) - 1, {s: S.One}, lambda side: False, lambda side: False)
    relu(Entry(0, ·) - 1)
    """
    while limits:
        sides = {node: side_at(node, limits) for node in found(expr, *CONDITIONS)}
        known = {node: side for node, side in sides.items() if side is not None}
        taken: dict[Expr, Expr] = {}
        for node, side in known.items():
            if side.body is not None and decided(side):
                taken |= {node: side.body} if stays(side) else {}
            elif isinstance(node, (functions.maximum, functions.minimum)):
                other, sign, bend = as_bend(node)
                taken[node] = other + sign * functions.relu(bend)
        if not taken:
            break
        expr = put_in(expr, taken, {})
    return expr


def as_bend(node: functions.maximum | functions.minimum) -> tuple[Expr, int, Expr]:
    """(b, ±1, ±(a − b)) for max(a, b) = b + relu(a − b) or min(a, b) = b − relu(b − a)."""
    other, one = sorted(node.args, key=lambda a: len(entries(a)))  # numbers cancel with others around it
    sign = 1 if isinstance(node, functions.maximum) else -1
    return other, sign, sign * (one - other)


def beside(argument: Expr, limits: Mapping[Entry, Expr]) -> Expr:
    """A function of scalars less what it is at their limits, which it fluctuates about: these fluctuate by n^(−½).

    Scalars whose limit is 0 are of the size that is counted for them.

    >>> s = Entry(sympy.Integer(0), sympy.Symbol("·"))
    >>> beside(sympy.sqrt(N) * (s - 1) - 2, {s: S.One}), beside(sympy.log(s), {s: S.One})
    (Entry(0, ·), Entry(0, ·)/sqrt(n))
    """
    near = {e: limits[e] + e / sympy.sqrt(N) for e in entries(argument) if limits[e] != 0}
    left = argument.xreplace(near) - argument.xreplace(dict(limits))
    return sympy.expand(led_in_powers_of_n(left, 0) if near else left)


def without_powers_in_jumps(network: Program) -> Program:
    """The network with sign(s) for sign(√n s): the same number at every width."""

    def out(body: Expr) -> Expr:
        return put_in(body, {j: j.func(without_factor(j.args[0], widths)) for j in found(body, *JUMPS)}, {})

    widths = network.known.width_symbols
    return network.changed(out)


def vanishes_at(node: Expr, limits: Mapping[Entry, Expr]) -> bool:
    """Whether a function of scalars has a zero at their limits that is none of its argument, as log s at 1."""
    read = entries(node)
    if not read or len(node.args) != 1 or any(e not in limits for e in read):
        return False
    at = node.args[0].xreplace(dict(limits))
    there = sympy.N(node.func(at)) if at.is_number and at.is_finite else S.NaN
    return bool(there.is_finite and at != 0 and abs(there) <= _ROUNDING * abs(at))


@dataclass(frozen=True)
class Left:
    """What is left of a sum whose terms cancel where some entries vanish: −s²/2 of cos(s) − 1, of order 2, first."""

    order: int
    first: Expr
    body: Expr


@remembered(1 << 12)
def left_of(total: Expr, vanishing: frozenset[Entry]) -> Left | None:
    """The first Taylor terms of a sum that cancels at 0; None of all others.

    >>> s = Entry(sympy.Integer(0), sympy.Symbol("·"))
    >>> left = left_of(sympy.cos(s) - 1, frozenset([s]))
    >>> left.order, left.first == -(s**2) / 2, left.body == s**4 / 24 - s**2 / 2
    (2, True, True)
    """
    at_zero = dict.fromkeys(vanishing, sympy.S.Zero)
    there = {a: a.xreplace(at_zero) for a in total.args}
    # terms that bend where they vanish, as relu(s), have no Taylor series, and are no part of what cancels
    apart = [a for a, value in there.items() if value == 0 and a.has(*functions.KINKS, *JUMPS)]
    along = sympy.Add(*(a for a in there if a not in apart)).xreplace({e: _STEP * e for e in vanishing})
    if sympy.Add(*there.values()) != 0 or along.has(AxisSum, *JUMPS):
        return None
    if along.is_polynomial(_STEP) and along == sympy.expand(along):  # its terms do not cancel
        return None
    terms = []
    for k in range(1, _ORDERS + 1):
        along = along.diff(_STEP)
        terms.append(sympy.expand(along.subs(_STEP, 0) / sympy.factorial(k)))
    body = sympy.Add(*terms, *apart)
    order = next((k for k, term in enumerate(terms, 1) if term != 0), 0)
    if not order or body.has(sympy.nan, sympy.zoo, sympy.oo, DiracDelta):
        return None
    return Left(1, body, body) if apart else Left(order, terms[order - 1], body)


@remembered(1 << 12)
def without_poles(node: Expr, vanishing: frozenset[Entry]) -> Expr | None:
    """The first Taylor terms of a sum or product whose poles at 0 are removable; None of all others.

    >>> s = Entry(sympy.Integer(0), sympy.Symbol("·"))
    >>> without_poles(sympy.sin(s) / s, frozenset([s])) == 1 - s**2 / 6 + s**4 / 120
    True
    >>> without_poles(sympy.cos(s) / s, frozenset([s])) is None
    True
    """
    terms = [_as_series(sympy.Mul.make_args(term), vanishing) for term in sympy.Add.make_args(node)]
    most = max((order for order, _ in terms), default=0)
    # what has two sides may have no series at the limit
    if not most or node.has(AxisSum, *SIDES):
        return None
    count = most + _ORDERS + 1
    series = [[S.Zero] * (most - order) + _product(factors, count) for order, factors in terms]
    taylor = [_cancelled(sympy.Add(*together)) for together in zip(*(c[:count] for c in series), strict=True)]
    body = sympy.Add(*taylor[most:])
    # a quotient of two small ones is one of the same order
    is_pole = any(term != 0 for term in taylor[:most]) or body == sympy.expand(node)
    return None if is_pole or body.has(_STEP, DiracDelta, sympy.nan, sympy.zoo, sympy.oo) else body


def _cancelled(total: Expr) -> Expr:
    """A sum multiplied out, and over one denominator where it has sums below."""
    total = sympy.expand(total)
    below = any(p.base.is_Add and p.exp.is_negative for p in found(total, sympy.Pow))
    return sympy.expand(sympy.cancel(total)) if total.is_Add and below else total


def _as_series(factors: Collection[Expr], vanishing: frozenset[Entry]) -> tuple[int, list[tuple[Expr, Expr, int]]]:
    """k such that a product has a pole of order k at t = 0, and of each factor the base, its power and its zero."""
    order, written = 0, []
    for factor in factors:
        base, power = factor.args if isinstance(factor, sympy.Pow) else (factor, S.One)
        along, zero = base.xreplace({e: _STEP * e for e in vanishing}), 0
        if power.is_Integer and power.is_negative and along.has(_STEP):
            zero = next((k for k, c in enumerate(_coefficients(along, _ORDERS + 1)) if c != 0), 0)
            order -= zero * int(power)
        written.append((along, power, zero))
    return order, written


def _product(factors: Collection[tuple[Expr, Expr, int]], count: int) -> Series:
    """Of a product of powers, each without the zero of its base."""
    whole = [S.One] + [S.Zero] * (count - 1)
    for along, power, zero in factors:
        left = _coefficients(along, count + zero)[zero:]
        factor = left if power == 1 else composed(INNER**power, left)
        whole = [sympy.expand(c) for c in times(whole, factor)]
    return whole


def _coefficients(along: Expr, count: int) -> Series:
    return [sympy.expand(c) for c in powers(along, _STEP, count - 1)]
