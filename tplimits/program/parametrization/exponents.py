"""The four exponents of a parameter in an abcd-parametrization (Yang & Littwin, Def. 2.2.1).

A parameter is W = n^(−a) w.  What is trained is w: it starts with standard deviation n^(−b), and a step moves it by
−η n^(−c) Q_t(n^d g_0, …, n^d g_t), g the gradient with respect to w.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sympy
from sympy import Expr

from tplimits.errors import ProgramError, shown
from tplimits.program.nodes.given import several


@dataclass(frozen=True)
class Exponents:
    """a, b, c, d of one parameter: exact rationals, or SymPy expressions with symbols.

    >>> Exponents.of(("1/2", 0, 1, 1)).shifted("-1/2")
    Exponents(a=0, b=1/2, c=3/2, d=1/2)
    """

    a: Expr
    b: Expr
    c: Expr
    d: Expr

    @classmethod
    def of(cls, values: Any, what: str = "exponents") -> Exponents:
        """Exponents from four numbers; ProgramError for anything else."""
        if isinstance(values, Exponents):
            return values
        four = several(values) or ()
        if len(four) != 4:
            raise ProgramError(f"{what}={shown(values)}: give the four exponents (a, b, c, d).")
        return cls(*(exponent(v, f"{what}.{name}") for v, name in zip(four, "abcd", strict=True)))

    def __iter__(self) -> Iterator[Expr]:
        return iter((self.a, self.b, self.c, self.d))

    def shifted(self, θ: Any) -> Exponents:
        """The same training of W by another w: (a + θ, b − θ, c − θ, d + θ) (Eq. 2.5)."""
        θ = exponent(θ, "θ")
        return Exponents(self.a + θ, self.b - θ, self.c - θ, self.d + θ)

    @property
    def symbols(self) -> set[sympy.Symbol]:
        """The symbols in them."""
        return set().union(*(e.free_symbols for e in self))

    def __str__(self) -> str:
        return f"({', '.join(map(str, self))})"


def exponent(value: Any, what: str = "exponent") -> Expr:
    """An exponent as an exact rational, or a SymPy expression with symbols; floats must be short binary fractions.

    >>> exponent("1/4"), exponent(0.25), exponent(Fraction(1, 3))
    (1/4, 1/4, 1/3)

    Raises ProgramError for everything else, also for 0.1, which is no rational of small denominator in binary.
    """
    found: Any = None
    if isinstance(value, Expr) and value.free_symbols:
        return sympy.nsimplify(value, rational=True) if value.has(sympy.Float) else value
    if not isinstance(value, bool):
        try:
            found = Fraction(value) if not isinstance(value, Expr) else sympy.Rational(value)
        except Exception:  # among others the code of users
            found = None
    if found is None or (isinstance(found, Fraction) and found.denominator > 10**6):
        raise ProgramError(
            f'{what}={shown(value)}: an exponent of n is an exact rational, such as 1, "1/2" or Fraction(1, 2).'
        )
    return sympy.Rational(found.numerator, found.denominator) if isinstance(found, Fraction) else found
