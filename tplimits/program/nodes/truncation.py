"""A normal variable within bounds, as a function of one without: the image behind truncated laws."""

from __future__ import annotations

import sympy
from sympy import Expr, S

from tplimits.program.nodes.functions import Real


class truncated(Real):
    """√2 erfinv(erf(c/√2) erf(x/√2)): of a standard normal x, a standard normal variable within ±c."""

    nargs = 2

    @classmethod
    def eval(cls, x: Expr, c: Expr) -> Expr | None:
        return S.Zero if x.is_zero else None

    def fdiff(self, argindex: int = 1) -> Expr:
        if argindex != 1:
            raise sympy.ArgumentIndexError(self, argindex)
        x, c = self.args
        return sympy.erf(c / sympy.sqrt(2)) * sympy.exp((self**2 - x**2) / 2)

    def definition(self) -> Expr:
        return self
