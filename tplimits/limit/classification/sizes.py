"""How large the entries of an expression are, as powers of n: at the start, and what training has changed.

Products add powers, sums take the largest.  A change is counted as if it were aligned with what it is multiplied by,
which is what training makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import sympy
from sympy import Expr

from tplimits.program import functions
from tplimits.program.entries import ArrayEntry, AxisSum, Entry

#: a power of n; −∞ is the power of what is zero
Power = Fraction | float
NOTHING = float("-inf")
HALF = Fraction(1, 2)

#: f(λx) = λ f(x), so that powers pass
_HOMOGENEOUS = (functions.relu, functions.leaky_relu, functions.maximum, functions.minimum, sympy.Abs)
#: f(x) ~ x at 0, bounded at infinity
_SATURATING = (sympy.tanh, sympy.erf, sympy.sin, sympy.atan)
#: linear at 0 and at infinity
_LINEAR_AT_BOTH_ENDS = (functions.gelu, sympy.asinh)
#: of order 1 whatever the argument, jumping where it changes sign
_JUMPS = (functions.step, sympy.sign)


@dataclass(frozen=True)
class Size:
    """Entries of size n^start before training, and changes of size n^move since."""

    start: Power = NOTHING
    move: Power = NOTHING

    @property
    def total(self) -> Power:
        """The size now."""
        return max(self.start, self.move)

    def times(self, power: Power) -> Size:
        """The size of n^power times this."""
        return Size(self.start + power, self.move + power)


CONSTANT = Size(Fraction(0))


def size_of(
    expr: Expr,
    of_entry: Callable[[Entry], Size],
    widths: frozenset[sympy.Symbol],
    arguments: list[Size] | None = None,
) -> Size:
    """The size of an expression, given those of the entries that it reads; `widths` are symbols that grow like n.

    The sizes of arguments of functions are added to `arguments`, since a saturating function hides them.

    >>> n, x = sympy.Symbol("n"), Entry(sympy.Integer(0), sympy.Symbol("α"))
    >>> moved = Size(Fraction(0), Fraction(-1, 2))
    >>> size_of(sympy.sqrt(n) * sympy.tanh(x) * x, lambda e: moved, frozenset([n]))
    Size(start=Fraction(1, 2), move=Fraction(0, 1))
    """

    def walk(node: Expr) -> Size:
        if node == 0:
            return Size()
        if isinstance(node, Entry):
            return of_entry(node)
        if node in widths:
            return Size(Fraction(1))
        if node.is_number or node.is_Symbol or isinstance(node, ArrayEntry):
            return CONSTANT
        if isinstance(node, AxisSum):
            return walk(node.summand)
        parts = [walk(a) for a in node.args]
        if isinstance(node, sympy.Add):
            return Size(max(p.start for p in parts), max(p.move for p in parts))
        if isinstance(node, sympy.Mul):
            return product(parts)
        if isinstance(node, sympy.Pow) and node.exp.is_Rational:
            return _power(parts[0], Fraction(int(node.exp.p), int(node.exp.q)))
        if arguments is not None:
            arguments.extend(parts)
        return _function(node, parts)

    return walk(expr)


def product(parts: list[Size]) -> Size:
    """The size of a product: a change of one factor meets all the others as they are now."""
    start = sum((p.start for p in parts), Fraction(0))
    moves = [p.move + sum((q.total for q in parts[:i] + parts[i + 1 :]), Fraction(0)) for i, p in enumerate(parts)]
    return Size(start, max(m for m in moves if m == m))  # −∞ + ∞ is no number


def _power(base: Size, e: Fraction) -> Size:
    if base.start == NOTHING and e < 0:
        return Size(-e * 10**6, NOTHING)
    if base.move <= base.start:
        return Size(e * base.start, base.move + (e - 1) * base.start if base.move != NOTHING else NOTHING)
    return Size(e * base.start, e * base.move if e > 0 else e * base.start)


def _function(node: Expr, parts: list[Size]) -> Size:
    """A function of one or several arguments, by what it does at zero and at infinity."""
    if isinstance(node, functions.where):
        parts = parts[1:]
    start, move = max(p.start for p in parts), max(p.move for p in parts)
    if isinstance(node, (*_HOMOGENEOUS, functions.where, *_LINEAR_AT_BOTH_ENDS)):
        return Size(start, move)
    if isinstance(node, _SATURATING):
        return Size(min(start, Fraction(0)), min(move, Fraction(0)))
    if isinstance(node, _JUMPS):
        return Size(Fraction(0), min(Fraction(0), move - start) if move != NOTHING else NOTHING)
    if isinstance(node, functions.softplus):
        return Size(max(start, Fraction(0)), move)
    if isinstance(node, sympy.exp):
        growing = max(start, move) > 0
        return Size(Fraction(0), move if not growing else max(start, move) * 10**6)
    return Size(Fraction(0), min(move, Fraction(0)))
