"""Functions with kinks and jumps at values away from them: which side each value is on, and what is left there.

Away from its kinks a function is smooth, and a δ in one of its derivatives is zero.  A value at a kink, or one whose
side is not known, has no Taylor series.
"""

from __future__ import annotations

import numpy
import sympy
from sympy import DiracDelta, Expr, S, Symbol

from tplimits.arrays import Array
from tplimits.errors import NoLimitError
from tplimits.numbers.in_digits import at_values
from tplimits.program.nodes.functions import elementary, kinks, step
from tplimits.regimes.depth.algebra.tables import CANCELLED


def at_number(function: Expr, argument: Symbol, number: Expr, name: str = "") -> Expr:
    """A function, or a derivative of one that a user calls `name`, at a number or an expression in constants."""
    value = function.xreplace({argument: number})
    if not kinks(value) and not function.has(DiracDelta):
        return value
    name = name or _name(function)
    for place in sorted(kinks(function) | {d.args[0] for d in function.atoms(DiracDelta)}, key=sympy.default_sort_key):
        _side(place.xreplace({argument: number}), name)
    sided = elementary(value.replace(DiracDelta, lambda *_: S.Zero))
    return sided.replace(step, lambda place: S.One if _side(place, name) > 0 else S.Zero)


def _side(place: Expr, name: str) -> int:
    if place.is_positive or place.is_negative:
        return 1 if place.is_positive else -1
    if place.is_zero or (place.is_number and place.equals(0)):
        raise NoLimitError(_at_a_kink(name))
    unknown = ", ".join(f"`{s}`" for s in sorted(place.free_symbols, key=str))
    raise NoLimitError(
        f"{name} has a kink, and on which side of it its argument is depends on the sign of "
        f"`{place}`, which is not known; give {unknown} a number by .bind."
    )


def at_array(function: Expr, argument: Symbol, table: Array, name: str = "") -> Array:
    """A function, or a derivative of one that a user calls `name`, at the values of an array.

    >>> at_array(sympy.Abs(Symbol("y")), Symbol("y"), numpy.array([-2.0, 1.0])).tolist()
    [2.0, 1.0]
    """
    for place in kinks(function) | {d.args[0] for d in function.atoms(DiracDelta)}:
        if at_kink(place, argument, table).any():
            raise NoLimitError(_at_a_kink(name or _name(function)))
    return at_values(function.replace(DiracDelta, lambda *_: S.Zero), argument, table)


def at_kink(place: Expr, argument: Symbol, table: Array) -> numpy.ndarray:
    """Where what changes sign at a kink is zero but for the rounding of the values of an array."""
    value = at_values(place, argument, table)
    moved = [at_values(place, argument, table * (1 + sign * CANCELLED)) for sign in (1, -1)]
    return numpy.abs(value) <= numpy.fmax(*(numpy.abs(m - value) for m in moved))


def _name(function: Expr) -> str:
    """What a function is called: its own name, or of a product or a sum the heads with kinks in it."""
    heads = sorted({node.func.__name__ for node in function.atoms(sympy.Function) if kinks(node)})
    return ", ".join(heads) if heads and not isinstance(function, sympy.Function) else function.func.__name__


def _at_a_kink(name: str) -> str:
    return (
        f"{name} has a kink or a jump at the value its argument fluctuates around, where it has no "
        "Taylor series; shift the argument, or take a smooth function."
    )
