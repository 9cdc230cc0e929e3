"""Whether E f² is infinite at a pole: f is followed into the zero set of a denominator.

Where linear forms ℓ_i vanish together and the denominator leaves zero with |ℓ_i|^(a_i), the shell ℓ_i = ε^(1/a_i) u_i
has probability ~ ε^w, w = Σ 1/a_i.  A function that grows there like ε^(−β) for a set of directions u of positive
measure has

    E f² ≥ c ∫ ε^(−2β) d(ε^w) = ∞   for 2β ≥ w.

Terms that cancel are seen to, since f is looked at as a whole.  That f does not grow in the directions looked at
proves nothing.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Symbol

from tplimits.law.hypotheses.bounds import bounds
from tplimits.law.hypotheses.linear import is_regular
from tplimits.law.hypotheses.signs import LONG, variables_in, without_names
from tplimits.law.hypotheses.vanishing import Locus, locus
from tplimits.law.means import BoxMean
from tplimits.program.parts import found, longer

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Randomness

#: two shells, the digits that are left after a function has cancelled there, and the directions looked at
_SHELLS, _DIGITS, _DIRECTIONS = (sympy.Float("1e-12", 80), sympy.Float("1e-16", 80)), 80, 3
#: how far a power is told from the one that is just integrable
_CLEAR = 0.02


def diverging_pole(expr: Expr, gaussians: Randomness) -> str:
    """Why E f² is infinite; "" where that is not seen."""
    expr = without_names(expr, gaussians)
    # a power that is not known may be integrable, whatever it is at values that are chosen for it
    if longer(expr, LONG) or expr.has(BoxMean) or any(not p.exp.is_comparable for p in found(expr, sympy.Pow)):
        return ""
    variables = variables_in(expr, gaussians)
    # points are chosen freely: with correlated or dependent variables the set of directions might have measure 0
    if not _independent(variables, gaussians):
        return ""
    for base in _denominators(expr):
        low, high = bounds(base)
        zeros = locus(base, gaussians) if low <= 0 <= high else None
        if zeros is not None and _diverges(expr, zeros, variables):
            forms = ", ".join(sympy.sstr(form) for form, _ in zeros.forms)
            vanish = "vanishes" if len(zeros.forms) == 1 else "vanish"
            return f"it has a pole where {forms} {vanish}, and its square is not integrable there"
    return ""


def _denominators(expr: Expr) -> list[Expr]:
    """What is divided by, of products each factor."""
    bases = [p.base for p in found(expr, sympy.Pow) if p.exp.could_extract_minus_sign()]
    inner = (b.args[0] if isinstance(b, sympy.Abs) else b for b in bases)
    return sorted({f for b in inner for f in sympy.Mul.make_args(b)}, key=str)


def _independent(variables: list[Symbol], gaussians: Randomness) -> bool:
    """Whether any values of the variables may occur together."""
    gram = sympy.Matrix([[gaussians.covariance(a, b) for b in variables] for a in variables])
    return gram.is_diagonal() or is_regular(gram)


def _diverges(expr: Expr, zeros: Locus, variables: list[Symbol]) -> bool:
    weight = float(zeros.weight)
    generator = random.Random(0)
    for _ in range(_DIRECTIONS):
        # of order one and off round numbers, where a factor might vanish by accident; constants in symbols too
        point = {s: sympy.Float(generator.uniform(0.4, 1.6), _DIGITS) for s in sorted(expr.free_symbols, key=str)}
        point |= {v: x * generator.choice((1, -1)) for v, x in point.items() if v in variables}
        direction = [sympy.Float(generator.uniform(0.4, 1.6) * generator.choice((1, -1)), _DIGITS) for _ in zeros.forms]
        sizes = []
        for epsilon in _SHELLS:
            place = _on_shell(
                zeros, [u * epsilon ** (1 / a) for u, (_, a) in zip(direction, zeros.forms, strict=True)], point
            )
            try:
                value = None if place is None else expr.xreplace(place).evalf(_DIGITS // 2)
            except (OverflowError, MemoryError):  # what is e^(−1/ε²) beside 1 has too many digits in between
                value = None
            # one direction without growth is enough to say nothing: INFINITE must be certain
            if value is None or not value.is_comparable or value == 0:
                return False
            sizes.append(float(sympy.log(abs(value))))
        # β from |f| ~ ε^(−β) at two ε; 80 digits survive cancellations down to ε = 1e-16
        growth = (sizes[1] - sizes[0]) / (math.log(_SHELLS[0]) - math.log(_SHELLS[1]))
        if 2 * growth < weight - _CLEAR:
            return False
    return True


def _on_shell(zeros: Locus, values: list[Expr], point: dict[Symbol, Expr]) -> dict[Symbol, Expr] | None:
    """The point moved in as many variables as there are forms, to where the forms have these values."""
    moved = sorted({v for form, _ in zeros.forms for v in form.free_symbols if v in point}, key=str)
    rows = sympy.Matrix([[form.diff(v) for v in moved] for form, _ in zeros.forms])
    # the forms get their values by moving as many variables as there are forms, the rest stays where it was drawn
    _, pivots = rows.rref()
    if len(pivots) < len(zeros.forms):
        return None
    chosen = [moved[i] for i in pivots]
    rest = {v: x for v, x in point.items() if v not in chosen}
    left = sympy.Matrix(
        [
            value - form.xreplace({**rest, **dict.fromkeys(chosen, sympy.S.Zero)})
            for value, (form, _) in zip(values, zeros.forms, strict=True)
        ]
    )
    solved = rows[:, list(pivots)].LUsolve(left)
    return {**rest, **dict(zip(chosen, solved, strict=True))}
