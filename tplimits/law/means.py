"""Means as parts of expressions: over boxed copies alone, and over everything where no closed form is known."""

from __future__ import annotations

from sympy import Expr, Symbol

from tplimits.program.nodes.entries import argument, arguments


class _Mean(Expr):
    """(integrand, *variables that it is a mean over): a function of the other symbols."""

    is_commutative = True
    is_real = True
    integrand: Expr = argument(0)
    boxed: tuple[Symbol, ...] = arguments(1)

    @property
    def free_symbols(self) -> set[Symbol]:
        return self.integrand.free_symbols - set(self.boxed)

    def _eval_derivative(self, symbol: Symbol) -> Expr:
        # a derivative acts on slot 0 only: boxed copies are bound (Def. 2.6.5)
        return self.func(self.integrand.diff(symbol), *self.boxed)


class BoxMean(_Mean):
    """E over the boxed copies alone."""


class Expectation(_Mean):
    """E over all Gaussian variables, shown to the user where no closed form is known."""

    def _sympystr(self, printer) -> str:
        return f"E[{printer._print(self.args[0])}]"

    def _latex(self, printer) -> str:
        return rf"\mathbb{{E}}\left[{printer._print(self.args[0])}\right]"
