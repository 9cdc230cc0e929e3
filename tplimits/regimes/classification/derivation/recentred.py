"""Scalars written about their limits: log q − q + 1 with q → 1 as log(1 + s) − s with s = q − 1, which is −s²/2 + ….

A sum of scalars that vanishes at their limits is as small as what they fluctuate by only where it has a slope there.
Where it has none the first Taylor terms tell, and these are told apart by what vanishes in it having a name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S

from tplimits.program.nodes.entries import Entry, entries
from tplimits.program.nodes.kinds import ScalarNonlin, through_names
from tplimits.program.parts import found
from tplimits.regimes.classification.derivation.near_limits import left_of

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: operations and scalars of a sum that is opened
_LONGEST, _MOST = 200, 4
#: what decimals leave of terms that cancel, as a part of them
_ROUNDING = 1e-12

#: the number that a function of scalars tends to, whatever data are; None where it tends to none that is seen
Number = Callable[[Expr], Expr | None]


def recentred(
    network: Program, total: Expr, limits: Mapping[int, Expr], number: Number
) -> tuple[Expr, dict[Expr, Expr]] | None:
    """A sum that vanishes with its slopes, by names of what vanishes in it, and these names; None of all others.

    >>> import tplimits as tp
    >>> @tp.program
    ... def squares(y: tp.Vector):
    ...     return tp.avg(y * y)
    >>> q = Entry(sympy.Integer(2), sympy.Symbol("·"))
    >>> found, names = recentred(squares, sympy.log(q) - q + 1, {2: S.One}, lambda expr: None)
    >>> found.xreplace({s: sympy.Symbol("s") for s in names}), names.values()
    (-s + log(s + 1), dict_values([Entry(2, ·) - 1]))
    >>> recentred(squares, sympy.log(q), {2: S.One}, lambda expr: None) is None
    True
    """
    opened = through_names(network.__getitem__, total, partial(_scalars, network), _LONGEST)
    if opened.count_ops() > _LONGEST or not 0 < len(entries(opened)) <= _MOST:
        return None
    names, swap = dict[Expr, Expr](), dict[Expr, Expr]()

    def near(centre: Expr, part: Expr) -> Expr:
        name = sympy.Dummy(real=True)
        names[name] = part
        return centre + name

    left = []
    for e in entries(opened):
        limit = limits[e.source] if e.source in limits else number(e)
        if limit is None:
            left.append(e)
        elif limit != 0:
            swap[e] = near(limit, e - limit)
    for share in _shares(opened, left):  # with data, but in one proportion
        told = sympy.Tuple(*swap, *swap.values())
        one = next((e for e in left if abs(share.as_powers_dict()[e]) == 1 and not told.has(e)), None)
        if one is not None and not share.has(*swap) and (limit := number(share)):
            power = share.as_powers_dict()[one]
            swap[one] = (near(limit, share - limit) * one**power / share) ** power
    small = frozenset(names).union(e for e in entries(opened) if limits.get(e.source) == 0)
    flat = _without_rounding(sympy.expand_log(opened.xreplace(swap), force=True), small)
    if flat is None:
        return None
    above, below = sympy.fraction(sympy.together(flat))
    if above.is_polynomial(*small) and below.xreplace(dict.fromkeys(small, S.Zero)) != 0:
        lowest = sympy.expand(above)
        return (lowest / below, names) if _degree(lowest, small) > 1 else None
    # a function of one sum, log(1 + s − log(1 + s)), is a sum with 0
    seen = left_of(sympy.Add(flat, 0, evaluate=False), small) if not flat.is_Mul else None
    return (flat, names) if seen is not None and seen.order > 1 else None


def _without_rounding(written: Expr, small: frozenset[Expr]) -> Expr | None:
    """A sum without a value and slopes at 0 that are the rounding of its decimals; None where it has a slope."""
    as_symbols = {s: sympy.Dummy(real=True) for s in small}
    exact, variables = written.xreplace(as_symbols), tuple(as_symbols.values())
    at_zero, inside = (dict.fromkeys(variables, number) for number in (S.Zero, S.Half))
    # a sum, since sizes may have no order: those with data, and what is no number there
    scale = sympy.Add(*(abs(sympy.N(t.xreplace(inside))) for t in sympy.Add.make_args(exact)))
    for part in (S.One, *variables):
        terms = [t.diff(part) if part in variables else t for t in sympy.Add.make_args(exact)]
        values = [t.xreplace(at_zero) for t in terms]
        if any(v.has(sympy.nan, sympy.zoo, sympy.oo, sympy.DiracDelta) for v in values):
            return None
        value = sympy.Add(*values)
        if value == 0:
            continue
        if not (scale.is_number and scale.is_finite) or not abs(sympy.N(value)) <= _ROUNDING * scale:
            return None
        exact -= sympy.expand(value * part)
    return exact.xreplace({d: s for s, d in as_symbols.items()})


def _scalars(network: Program, body: Expr) -> list[Entry]:
    return [e for e in entries(body) if isinstance(network[e.source], ScalarNonlin)]


def _shares(opened: Expr, left: Sequence[Entry]) -> list[Expr]:
    """Products and quotients of scalars, as they are written and of two, which may tend to numbers."""
    written = [sympy.Mul(*(f for f in node.args if f.has(*left))) for node in found(opened, sympy.Mul)] if left else []
    return [*dict.fromkeys((*written, *(one / other for one, other in combinations(left, 2))))]


def _degree(polynomial: Expr, small: frozenset[Expr]) -> float:
    """The least degree of a polynomial; ∞ of what is 0."""
    if polynomial == 0:
        return inf
    return min(sum(powers) for powers in sympy.Poly(polynomial, *small).monoms())
