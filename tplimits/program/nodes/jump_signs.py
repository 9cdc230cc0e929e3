"""Signs that jumps read, by algebra: numbers lose them where functions saturate.

    sign(f(a) − f(b)) = sign(a − b),  sign(f(a) − c) = sign(a − f⁻¹(c)) for f that rises,  sign(c − f(a)) = 1 for f < c

σ(200 (x − 2)) − σ(200 (x − 2.2)) is positive everywhere, and 0 in double precision for most x.  So is 1 − tanh(30 x),
of which 10⁻²⁰ is left at x = 0.78; sums that cancel in that way are written as `saturated` does.
"""

from __future__ import annotations

from collections.abc import Mapping

import sympy
from sympy import Expr, S

from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import Entry
from tplimits.program.nodes.properties import FALLING, POSITIVE, PROPERTIES, RISING
from tplimits.program.nodes.saturated import by_sides, taken_apart, with_digits
from tplimits.program.parts import holds, rebuilt

#: kinks at a zero of their argument; an extreme of two is as large as they are
_KINKS = (sympy.Abs, functions.relu, functions.leaky_relu)


def with_plain_signs(body: Expr) -> Expr:
    """A body whose jumps read what has the same sign in as plain words as are known; the same function.

    >>> x = sympy.Symbol("x", real=True)
    >>> with_plain_signs(functions.step(sympy.tanh(3 * x) - sympy.tanh(x)) + functions.step(1 - sympy.erf(x)))
    step(x) + 1
    """
    if not holds(body, *functions.BENT) or not holds(body, *RISING, *FALLING):
        return body
    args = [with_plain_signs(a) for a in body.args]
    if isinstance(body, functions.JUMPS):
        args[0] = with_digits(plain_sign(args[0]))
    elif isinstance(body, _KINKS):
        args[0] = with_digits(args[0])
    body = body if args == list(body.args) else rebuilt(body, args)
    return by_sides(body) if isinstance(body, functions.JUMPS) else body


def plain_sign(expr: Expr) -> Expr:
    """An expression with the sign of another at every argument, 1 for what is positive."""
    if expr.is_Mul:
        return sympy.Mul(*map(plain_sign, expr.args))
    if isinstance(expr, POSITIVE):
        return S.One
    if not expr.is_Add:
        return expr
    low, high = (sympy.Add(*ends) for ends in zip(*map(_ends, expr.args), strict=True))
    if low.is_extended_nonnegative or high.is_extended_nonpositive:
        return S.One if low.is_extended_nonnegative else S.NegativeOne
    difference = _difference(expr) or _beyond(expr)
    return expr if difference is None else plain_sign(difference)


def _ends(term: Expr) -> tuple[Expr, Expr]:
    """Between which numbers a term lies; not at these themselves, unless it is a number."""
    factor, function = term.as_coeff_Mul()
    if term.is_comparable:
        return term, term
    if not isinstance(function, (*RISING, *FALLING)) or not factor.is_comparable:
        return S.NegativeInfinity, S.Infinity
    low, high = (factor * end for end in PROPERTIES[type(function)].values)
    return (low, high) if factor.is_positive else (high, low)


def _difference(expr: Expr) -> Expr | None:
    """a − b for k f(a) − k f(b) with a rising k f, b − a with a falling one."""
    terms = [t.as_coeff_Mul() for t in expr.args]
    if len(terms) != 2 or terms[0][0] != -terms[1][0]:
        return None
    (factor, f), (_, g) = terms
    if type(f) not in (*RISING, *FALLING) or type(g) is not type(f) or not factor.is_comparable:
        return None
    rises = (type(f) in RISING) == bool(factor.is_positive)
    difference = sympy.expand(f.args[0] - g.args[0])
    return difference if rises else -difference


def _beyond(expr: Expr) -> Expr | None:
    """a − f⁻¹(c) for k f(a) − k c of which little is left where f saturates: a line, where a is one."""
    total = taken_apart(expr)
    if total is None or len(total.places) != 1 or total.small != 0 or len(total.cancelling) != 1:
        return None
    at = total.crossing()
    (place,), ((left, right),) = total.places, total.ends
    return None if at is None else (place - at if right.value > left.value else at - place)


def with_scaled_signs(expr: Expr, swap: Mapping[Expr, Expr]) -> Expr:
    """sign(y) as step(y) − step(−y) where a width stands in y.

    Of sign(√n·θ) SymPy keeps sign(θ), though √n says at which scale θ is looked at.
    """
    if not holds(expr, sympy.sign):
        return expr
    scaled = {e for e, value in swap.items() if any(s.is_positive and not s.is_integer for s in value.free_symbols)}
    signs = {node for node in expr.atoms(sympy.sign) if not scaled.isdisjoint(node.atoms(Entry))} if scaled else ()
    return expr.xreplace({node: functions.step(node.args[0]) - functions.step(-node.args[0]) for node in signs})
