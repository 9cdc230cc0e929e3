"""Sums of bends of one argument, as clamps are: relu(c + x) − relu(c − x) − x is x, as long as x is smaller than c.

Term by term such a sum would be as large as its largest term.  As one function of x it is read by what it is at 0, and
by whether it stays bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
from sympy import Expr

from tplimits.program.nodes.entries import Entry
from tplimits.program.nodes.functions import KINKS
from tplimits.program.parts import remembered

_T = sympy.Dummy("t", real=True)
#: a number beside which all constants are small, and one that stands for n
_FAR, _N = sympy.Integer(10) ** 60, sympy.Integer(10) ** 12


@dataclass(frozen=True)
class Bent:
    """A piecewise linear function of `argument`: its value at 0, its constants, and the terms that are not of it."""

    argument: Expr
    at_zero: Expr
    constants: tuple[Expr, ...]
    is_bounded: bool
    rest: tuple[Expr, ...]


def bent(node: Expr, widths: frozenset[sympy.Symbol]) -> Bent | None:
    """The bends of one argument in a sum, if some of them are not at 0.

    >>> from tplimits.program.nodes import functions
    >>> x = Entry(sympy.Integer(0), sympy.Symbol("α"))
    >>> found = bent(functions.relu(3 + x) - functions.relu(3 - x) - x, frozenset())
    >>> found.argument == x, found.at_zero, found.constants, found.is_bounded
    (True, 0, (3,), True)
    """
    factors = [f for a in sympy.Add.make_args(node) for f in sympy.Mul.make_args(a)]
    heads = {f for f in factors if isinstance(f, KINKS) and any(_constant(a) != 0 for a in f.args)}
    for argument in sorted({_argument(h) for h in heads} - {None}, key=sympy.default_sort_key):
        terms = [(a, a.subs(argument, _T)) for a in sympy.Add.make_args(node)]
        g = sympy.Add(*(b for _, b in terms if not _reads(b)))
        inside = {_constant(a) for h in g.atoms(*KINKS) for a in h.args} - {sympy.S.Zero}
        if inside and _is_of_bends(g):
            return Bent(
                argument,
                _at_zero(g, widths),
                tuple(sorted(inside, key=sympy.default_sort_key)),
                all(_is_flat(g, side, widths) for side in (1, -1)),
                tuple(a for a, b in terms if _reads(b)),
            )
    return None


@remembered(1 << 14)
def _reads(node: Expr) -> bool:
    """Whether entries stand in an expression: each part of it is looked at once, however often it stands there."""
    return isinstance(node, Entry) or any(map(_reads, node.args))


def _constant(argument: Expr) -> Expr:
    """The summands of an argument without entries."""
    return sympy.Add(*(a for a in sympy.Add.make_args(argument) if not _reads(a) and _T not in a.free_symbols))


def _argument(head: Expr) -> Expr | None:
    """What a bend, or the bend in it, is of: summands of its argument with entries, a positive number in front."""
    for a in head.args:
        if _reads(a):
            moving = sympy.Add(*(b for b in sympy.Add.make_args(a) if _reads(b)))
            inner = moving.as_coeff_Mul()[1]
            if isinstance(inner, KINKS):
                return _argument(inner)
            # relu(c + x) and relu(c − x) are bends of one argument
            return -moving if moving.could_extract_minus_sign() else moving
    return None


def _is_of_bends(g: Expr) -> bool:
    """Whether t stands in sums, bends and products with constants alone."""
    if not g.has(_T) or g == _T:
        return True
    if isinstance(g, sympy.Mul):
        return sum(a.has(_T) for a in g.args) == 1 and all(map(_is_of_bends, g.args))
    return isinstance(g, (sympy.Add, *KINKS)) and all(map(_is_of_bends, g.args))


def _at_zero(g: Expr, widths: frozenset[sympy.Symbol]) -> Expr:
    """The value of a function of bends at 0."""
    # constants may hold powers of n: whether they cancel is asked at a large number
    value = g.subs(_T, 0)
    return sympy.S.Zero if value.subs(dict.fromkeys(widths, _N)) == 0 else value


def _is_flat(g: Expr, side: int, widths: frozenset[sympy.Symbol]) -> bool:
    """Whether a function of bends is constant far away."""
    at = [g.subs({_T: side * far * _FAR, **dict.fromkeys(widths, _N)}) for far in (1, 2)]
    return bool(abs(sympy.N(at[1] - at[0], 30)) < _FAR / 10**9)
