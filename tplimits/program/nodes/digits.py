"""Numbers by their digits, where algebra does not tell whether they are zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
from sympy import Expr, S, Symbol

#: what a division by zero leaves in an expression
NOT_NUMBERS: tuple[Any, ...] = (type(sympy.zoo), type(sympy.nan), type(sympy.oo), type(-sympy.oo))
#: digits to which a number is told from zero
_DIGITS = 40
#: digits that are carried along, until so many are left; bits of a digit
_MOST, _BITS = (100, 800, 6400), 4
#: functions that come nearer to a constant than any power, from where on they do, and digits that tell by how much;
#: from where on they have no exponent that is written down
_FLAT, _FAR, _ENOUGH = (sympy.exp, sympy.erf, sympy.erfc, sympy.tanh, sympy.sinh, sympy.cosh, sympy.sech), 4, 800
_FARTHEST = 10**6


def value_of(number: Expr, digits: int = _DIGITS) -> Expr | None:
    """A real number to so many digits, exactly 0 where it has none; None for what is no number.

    SymPy gives log 2 + log 3 − log 6 as 0.e-172, a positive number that is not comparable.

    >>> from sympy import I, log
    >>> value_of(log(2) + log(3) - log(6)), value_of(log(2) + log(3), 5), value_of(I)
    (0, 1.7918, None)
    """
    value = in_digits(number, digits)
    return value if value.is_comparable else None


def in_digits(expr: Expr, digits: int, known: Mapping[Symbol, Expr] | None = None) -> Expr:
    """An expression with its numbers to so many digits, also where large ones cancel; exactly 0 where none are left.

    Numbers for symbols are taken as exact.  Put into the expression, decimals would be calculated with at once, in
    their own digits.  What is 0 to a hundred digits is 0, but for functions that are flat far out: 1 − erf 30 is not.

    >>> from sympy import erf, erfc, exp
    >>> in_digits(exp(1250) * (1 + erfc(30)) - exp(1250), 5), in_digits(1 - erf(30), 5)
    (1.8929e+150, 2.5647e-393)
    """
    flat = _flat(expr, known or {})
    # 1 − erf 200 has no digit before the 17 000th, and erfc 200 has all of them at once
    far = {e: sympy.sign(a) for e, a in flat.items() if isinstance(e, sympy.erf) and abs(a) < _FARTHEST}
    ends = {e: sign - sign * sympy.erfc(sign * e.args[0]) for e, sign in far.items()}
    expr = expr.xreplace(ends)
    hidden = _hides(expr, flat)
    value, before = expr, S.NaN
    for most in _MOST:
        try:
            value = expr.evalf(digits, subs=dict(known) if known else None, maxn=most)
        except MemoryError:  # of erf(√2·10⁶) SymPy wants e^(10¹²) to all digits
            return S.NaN
        if not value.is_Float or value.is_comparable:
            if not hidden or value == before or (before.is_comparable and _agree(value, before, digits)):
                return value
            if most == _ENOUGH:
                return S.NaN
            before = value
            continue
        # 0.e+372 is what is left of a hundred digits, not yet nothing
        if value._mpf_[2] < -digits * _BITS and (most >= _ENOUGH or not flat):
            return S.Zero
    return value


def _flat(expr: Expr, known: Mapping[Symbol, Expr]) -> dict[Expr, Expr]:
    """Functions that are flat far out, where they are read there, with what they read.

    What differs from their ends has digits far behind 0.
    """
    read = {node: node.args[0].xreplace(dict(known)) for node in expr.atoms(*_FLAT)}
    return {node: a.evalf() for node, a in read.items() if a.is_comparable and abs(a) > _FAR}


def _hides(expr: Expr, flat: Mapping[Expr, Expr]) -> bool:
    """Whether a power or a function reads a sum of what is flat: SymPy takes noise for what it cancels to."""
    read = (a for node in expr.atoms(sympy.Pow, sympy.Function) for a in node.args) if flat else ()
    return any(total.has(sympy.erfc, *flat) for a in read for total in a.atoms(sympy.Add))


def _agree(one: Expr, other: Expr, digits: int) -> bool:
    return bool(one.is_comparable and abs(one - other) <= abs(one) * sympy.Float(10) ** (-digits // 2))
