"""Removable poles at the limit of a scalar: log(1 + s)/s tends to 1 as s → 0, whatever the width.

    N(s, θ) / g(s)^k → N_m(θ) / (g_1)^k   as s → 0,   N = N_m s^m + …,  g = g_1 s^(m/k) + …

where N and g are analytic in s near 0 and N vanishes there to the order of the denominator for every θ: then the
quotient is continued by a function that is continuous at (0, θ), and the continuous mapping theorem holds.  s is the
distance of a scalar from its limit, log(s)/(s − 1) at s = 1, or from another one with that limit, as in difference
quotients.  Powers of s beside logarithms, s log|s| → 0, or beside moduli, s²/|s| = |s|, and numerators of a higher
order than a denominator that vanishes in several scalars together, as s t/√(s² + t²), take them along.  It is asked
of poles at limits that are 0 by algebra; one that is 0 as far as numbers tell is refused by `pole`.
Where a power of n may bring out what fluctuates beside the limit, the quotient is continued by more of its series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr, S

from tplimits.law.gaussians import independent
from tplimits.law.hypotheses.bounds import bounds, never_negative
from tplimits.law.hypotheses.quotients import over_one_denominator, poles_of
from tplimits.law.hypotheses.taylor import is_analytic, order_at_zero, quotient_powers
from tplimits.law.hypotheses.vanishing import locus
from tplimits.law.hypotheses.vanishing import order as order_beside
from tplimits.law.hypotheses.zero import LONG, cancelled
from tplimits.law.rules.magnified import brought_out, fluctuations_named, functions_of_n
from tplimits.law.rules.multiplicative import apart
from tplimits.program.nodes.domains import ends_of_domains, singular_places
from tplimits.program.nodes.entries import Entry, N, entries
from tplimits.program.nodes.kinds import Instruction, Nonlin
from tplimits.program.parts import found, longer, put_in, symbols

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: so many terms of a numerator are looked at
_MOST = 6
#: and so many more of one that vanishes faster than its denominator
_FURTHER = 2
#: so many functions of functions are written out
_LEVELS = 4
_SCALAR = sympy.Dummy("s", real=True)


def continued(
    body: Expr,
    tends: Callable[[Entry], Expr | None],
    moves: Callable[[Expr], bool],
    order: int = 0,
    opened: Callable[[Expr], Expr] = lambda body: body,
) -> Expr:
    """A body with its removable poles at the limits of scalars replaced by Taylor polynomials of this order.

    `tends` tells what scalars tend to, `moves` which of their functions that tend to 0 are not 0 before, with
    probability 1; `opened` writes out the functions that a body reads, where a pole is not removable by what stands
    in it: of z = s − 1 and l = log(s) the quotient l/z is.

    >>> s, t = Entry(S(1), S(0)), Entry(S(2), S(0))
    >>> continued(sympy.log(s) / (s - 1), lambda entry: S(1), lambda entry: True)
    1
    >>> continued((s - t) / (s**2 - t**2), lambda entry: S(1), lambda entry: True)
    1/(2*Entry(2, 0))
    >>> continued(sympy.exp(s) / s, lambda entry: S(0), lambda entry: True) == sympy.exp(s) / s
    True
    """
    # from the inside out: tanh(√n (1 − cos s)/s) is a function of √n s/2
    inner = {f: f.func(*(continued(a, tends, moves, order) for a in f.args)) for f in functions_of_n(body)}
    body, back = fluctuations_named(put_in(body, inner, {}), tends)
    found = _continued(body, tends, moves, order)
    # signs and moduli of scalars last: of |tanh(s v)/s| the quotient is to be continued as a whole
    split = apart(found, tends, moves)
    found = put_in(found if split == found else _continued(split, tends, moves, order), back, {})
    # what a power of n brings to order 1 is at no limit
    for _ in range(_LEVELS if _lands(found, tends, moves) and N not in symbols(found) else 0):
        inner, body = body, opened(body)
        if body == inner or N in symbols(body) or longer(body, LONG):
            break
        further = continued(body, tends, moves, order)
        if not _lands(further, tends, moves):
            return further
    return found


def _lands(body: Expr, tends: Callable[[Entry], Expr | None], moves: Callable[[Expr], bool]) -> bool:
    """Whether a pole of a body is at the limits of the scalars that it reads."""
    return any(_limits(argument, tends, moves) for _, argument in singular_places(body))


def _limits(
    argument: Expr, tends: Callable[[Entry], Expr | None], moves: Callable[[Expr], bool]
) -> dict[Expr, Expr] | None:
    """The limits of the scalars of an argument that tends to 0 and is not 0 before; None of others."""
    limits: dict[Expr, Expr] = {}
    for entry in entries(argument):
        limit = tends(entry)
        if limit is None:
            return None
        limits[entry] = limit
    return limits if limits and _is_zero(argument.xreplace(limits)) and moves(argument) else None


def _continued(body: Expr, tends: Callable[[Entry], Expr | None], moves: Callable[[Expr], bool], order: int) -> Expr:
    for _, argument in singular_places(body):
        limits = _limits(argument, tends, moves)
        if limits is None:
            continue
        # of all scalars: of what another one divides, the limit as one of them goes to 0 is not enough
        beside = _beside_poles(body, {e: limit for e in entries(body) if (limit := tends(e)) is not None})

        def value(part: Expr, now: Expr, argument: Expr = argument, limits: Any = limits, beside: Any = beside) -> Any:
            # what stands beside a pole is asked for more than its limit: tanh(h sin(s)/s) − tanh(h) over s²
            return _value(now, argument, limits, order + (_MOST if part in beside else 0))

        body = replaced(body, argument, value)
    return body


def replaced(body: Expr, argument: Expr, value: Callable[[Expr, Expr], Expr | None]) -> Expr:
    """A body whose products and sums that hold an argument have another value, if `value` knows one.

    It is told a part and what it is by now, over one denominator: from the inside out, sums of quotients,
    1/s − cos(s)/s, come after their products.
    """
    done: dict[Expr, Expr] = {}
    for part in dict.fromkeys(p for p in sympy.postorder_traversal(body) if isinstance(p, (sympy.Mul, sympy.Add))):
        found = value(part, over_one(put_in(part, done, {}))) if part.has(argument) else None
        if found is not None:
            done[part] = found
    return put_in(body, done, {})


def _beside_poles(body: Expr, limits: Mapping[Expr, Expr]) -> set[Expr]:
    """The parts of factors of products that have a pole where scalars take their limits."""

    def vanishes(base: Expr) -> bool:
        # 0/0 inside of a denominator, as in 1/(sin(s)/s − 1), may be one as well
        limit = base.xreplace(limits)
        return limit is S.NaN or limit.is_finite is False or _is_zero(limit)

    products = (p for p in found(body, sympy.Mul) if any(vanishes(f.base) for f in _poles(p.args)))
    return {part for p in products for factor in p.args for part in found(factor, sympy.Mul, sympy.Add)}


def _value(product: Expr, argument: Expr, limits: Mapping[Expr, Expr], order: int) -> Expr | None:
    """What a product tends to as an argument of it tends to 0; None where it has no limit that is seen."""
    bare = _by_modulus(product, argument)
    if bare is not None:
        return bare
    inside = argument.args[0] if isinstance(argument, sympy.Abs) else argument
    alone = [e for e, limit in limits.items() if limit == 0 and len(limits) == 1]
    for place in () if order else (inside, *alone):
        tamed = _tamed(product, place)
        if tamed is not None:
            return tamed
    for scalar in limits:
        for place in _zeros(argument, scalar, limits):
            # logarithms and roots are analytic where they stand if a limit is known to be positive
            signed: dict[Expr, Expr] = {
                e: sympy.Dummy(positive=True) for e, limit in limits.items() if e != scalar and limit.is_positive
            }
            value = _quotient(product.xreplace(signed), scalar, place.xreplace(signed), order)
            if value is not None:
                return value.xreplace({name: e for e, name in signed.items()})
    return None if order else _beside_bounded(product, limits) or _vanishing(product, limits)


def smooth(
    program: Program, tends: Callable[[Entry], Expr | None], moves: Callable[[Expr], bool], order: int
) -> Program:
    """A program with all its bodies continued, to an order beyond what powers of its widths bring out.

    Where a limit is no number, what stands at it is left: it may be another at other data.
    """
    widths = program.known.width_symbols

    def number(entry: Entry) -> Expr | None:
        limit = tends(entry)
        return limit if limit is not None and limit.is_Number else None

    def changed(s: Instruction) -> Instruction:
        if not isinstance(s, Nonlin):
            return s
        body = continued(s.body, number, moves, order + brought_out([s.body], widths))
        return s if body is s.body else replace(s, body=body)

    return program.replace(instructions=tuple(map(changed, program)))


def _is_zero(limit: Expr) -> bool:
    return bool(cancelled(sympy.expand(limit)) == 0)


def _zeros(argument: Expr, scalar: Entry, limits: Mapping[Expr, Expr]) -> list[Expr]:
    """Where an argument vanishes as a function of a scalar near its limit: at a number, or at another scalar."""
    if len(limits) == 1:
        return [limits[scalar]]
    return [place for place in zeros(argument, scalar) if _is_zero(place.xreplace(limits) - limits[scalar])]


def zeros(argument: Expr, scalar: Entry) -> list[Expr]:
    """Where an argument vanishes, at numbers or at other scalars: a polynomial of degree 1 or 2, others at 0 alone."""
    alone = argument.xreplace({scalar: _SCALAR})
    if not alone.is_polynomial(_SCALAR):
        return [S.Zero] if _is_zero(alone.xreplace({_SCALAR: S.Zero})) else []
    found = sympy.roots(alone, _SCALAR) if sympy.degree(alone, _SCALAR) < 3 else ()
    return [place.xreplace({_SCALAR: scalar}) for place in found]


def over_one(expr: Expr) -> Expr:
    """A sum of quotients of scalars over one denominator, as long as none of its terms is a quotient of others."""
    return over_one_denominator(expr, of_entries)


def _by_modulus(product: Expr, argument: Expr) -> Expr | None:
    """s^a |s|^(−b) as a power of |s|, with s before it where a is odd, for a ≥ b: s²/|s| is |s|; None for others."""
    if not isinstance(argument, sympy.Abs):
        return None
    inner = argument.args[0]
    power = product.as_powers_dict() if product.is_Mul else {}
    whole, left = power.get(inner, S.Zero), power.get(argument, S.Zero)
    odd = whole % 2
    if not whole.is_Integer or not (whole - odd > 0 and whole - odd + left >= 0):
        return None
    rest = sympy.Mul(*(f for f in product.args if f.as_base_exp()[0] not in (inner, argument)))
    return rest * inner**odd * argument ** (whole - odd + left)


def _tamed(product: Expr, scalar: Expr) -> Expr | None:
    """A product of logarithms and powers of what tends to 0 without the former, which are weaker; None for others."""
    mine = [f for f in product.args if f.has(scalar)]
    logs = [f for f in mine if isinstance(f.as_base_exp()[0], sympy.log) and _weak(f.as_base_exp()[0].args[0], scalar)]
    powers = [f for f in mine if f.as_base_exp()[0] in (scalar, sympy.Abs(scalar))]
    if not logs or not powers or any(f.as_base_exp()[1].could_extract_minus_sign() for f in mine):
        return None
    return sympy.Mul(*(f for f in product.args if f not in logs))


def _weak(argument: Expr, scalar: Expr) -> bool:
    """Whether the logarithm of an argument is real for every value of a scalar, and diverges as its own at 0."""
    smooth = argument.replace(sympy.Abs, lambda x: x).xreplace({scalar: _SCALAR})
    return bounds(argument)[0] >= 0 and bool(order_at_zero(smooth, _SCALAR))


def of_entries(base: Expr) -> bool:
    """Whether a base reads what moves."""
    return bool(entries(base))


def _poles(factors: Iterable[Expr]) -> list[Expr]:
    return poles_of(factors, of_entries)


def _quotient(product: Expr, scalar: Entry, place: Expr, order: int) -> Expr | None:
    """A product near the place of a scalar at which its denominator vanishes, as a polynomial; None without a limit."""
    found = coefficients(product, scalar, place, order)
    if found is None:
        return None
    series, others = found
    above = sympy.Mul(*(f for f in product.args if scalar in entries(f) and f not in _poles(product.args)))
    if not any(series):
        if any(entries(argument) for _, argument in singular_places(above)):
            return None
        # its first term: beside poles of others it tells by which of them it is divided
        further = coefficients(product, scalar, place, order + _FURTHER)
        series = further[0] if further and any(further[0]) else [*series, S.One]
        order = next(k for k, c in enumerate(series) if c != 0)
    value = sympy.Add(*(c * (scalar - place) ** k for k, c in enumerate(series[: order + 1])))
    return sympy.Mul(value, *others)


def coefficients(product: Expr, scalar: Entry, place: Expr, order: int) -> tuple[list[Expr], list[Expr]] | None:
    """The Taylor coefficients of a product in scalar − place, where its denominator vanishes, and other factors of it.

    None where the denominator does not vanish, or its pole stays.
    """
    poles = [f for f in _poles(product.args) if scalar in entries(f.base)]
    # an Entry is no symbol that SymPy differentiates by
    near = {scalar: place + _SCALAR}

    def stays(factor: Expr) -> bool:
        # what may have poles of its own is to be judged, also where the quotient vanishes; relu(h − s) keeps its kink
        if scalar in entries(factor):
            return factor not in poles and not is_analytic(factor.xreplace(near), _SCALAR)
        return bool(singular_places(factor))

    others = [f for f in product.args if stays(f)]
    below = sympy.Mul(*(1 / f for f in poles)).xreplace(near)
    above = sympy.Mul(*(f for f in product.args if f not in (*poles, *others))).xreplace(near)
    if not poles or not all(is_analytic(part, _SCALAR) for part in (above, below)):
        return None
    found = quotient_powers(above, below, _SCALAR, order, _number)
    return None if found is None else (found, others)


def _beside_bounded(product: Expr, limits: Mapping[Expr, Expr]) -> Expr | None:
    """What stands beside bounded factors where it tends to 0: s tanh(v/s) does, whatever v/s is; None for others."""
    beside = [f for f in product.args if not all(abs(b) < S.Infinity for b in bounds(f))] if product.is_Mul else []
    rest = sympy.Mul(*beside)
    is_small = len(beside) < len(product.args) and _is_zero(rest.xreplace(dict(limits)))
    return rest if is_small and not singular_places(rest) and not ends_of_domains(rest) else None


def _vanishing(product: Expr, limits: Mapping[Expr, Expr]) -> Expr | None:
    """A quotient that tends to 0, as s t/√(s² + t²): its numerator is of a higher order than its denominator."""
    moved = {e: sympy.Dummy(str(e), real=True) for e in limits}
    law, centred = independent(moved.values()), {e: limits[e] + moved[e] for e in limits}
    factors = {f: f.xreplace(centred) for f in product.args}
    poles = [f for f, near in factors.items() if near.is_Pow and near.exp.is_negative and law.of(near)]
    zeros = locus(factors[poles[0]].base, law) if len(poles) == 1 else None
    if zeros is None:
        return None
    orders = {f: order_beside(near, zeros, law) for f, near in factors.items() if f not in poles and law.of(near)}
    if sympy.Add(*orders.values()) + factors[poles[0]].exp <= 0:
        return None
    small = next(e - limits[e] for e in limits)
    gone = {f for f in product.args if f in poles or orders.get(f)}
    # sin(s)/√s tends to 0 where it is real: roots stay to be judged
    roots = (sympy.sqrt(a) for f in gone for _, a in ends_of_domains(f) if not never_negative(a))
    return sympy.Mul(small, *roots, *(f for f in product.args if f not in gone))


def _number(coefficient: Expr) -> Expr:
    """A coefficient that shows whether it is zero."""
    return cancelled(sympy.expand(coefficient))
