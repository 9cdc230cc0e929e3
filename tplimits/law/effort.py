"""How much a derivation has read, counted and not timed: kets inside one another outgrow what anybody waits for."""

from __future__ import annotations

from dataclasses import dataclass

from sympy import Expr

#: a fraction with a denominator of so many bits counts as one node more
_BITS = 1024


class TooMuch(Exception):
    """A derivation has read more than it was given."""


@dataclass
class Effort:
    """Nodes of expressions that were read so far, and the most that may be; None: any number.

    >>> import sympy
    >>> x = sympy.Symbol("x")
    >>> effort = Effort(10)
    >>> effort.read(x**2 + 1)
    >>> effort.spent
    5
    >>> effort.read((x + 1) ** 5)
    >>> effort.read(x)
    Traceback (most recent call last):
    ...
    tplimits.law.effort.TooMuch
    """

    most: int | None = None
    spent: int = 0

    def read(self, expr: Expr) -> None:
        """Count an expression, written out; TooMuch as soon as it is too much."""
        if self.most is None:
            return
        stack = [expr]
        while stack:
            node = stack.pop()
            self.spent += 1
            if node.is_Rational:  # long fractions: their common divisors take time like the square of their length
                self.spent += (node.q.bit_length() // _BITS) ** 2
            if self.spent > self.most:
                raise TooMuch
            stack.extend(node.args)
