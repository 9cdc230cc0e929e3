"""Entrywise heads as scalar Python that Numba compiles."""

from __future__ import annotations

import sympy
from sympy import Expr
from sympy.printing.pycode import PythonCodePrinter


class ScalarPrinter(PythonCodePrinter):
    """Prints a body on numbers; entries and other leaves are symbols, or printed by subclasses."""

    def __init__(self) -> None:
        super().__init__({"fully_qualified_modules": True})

    def _call(self, name: str, expr: Expr) -> str:
        return f"{name}({', '.join(self._print(a) for a in expr.args)})"

    def _print_step(self, expr: Expr) -> str:
        return f"(1.0 if {self._print(expr.args[0])} > 0.0 else 0.0)"

    def _print_relu(self, expr: Expr) -> str:
        return f"max({self._print(expr.args[0])}, 0.0)"

    def _print_leaky_relu(self, expr: Expr) -> str:
        x, slope = (self._print(a) for a in expr.args)
        return f"(({x}) if ({x}) > 0.0 else ({slope})*({x}))"

    def _print_maximum(self, expr: Expr) -> str:
        return self._call("max", expr)

    def _print_minimum(self, expr: Expr) -> str:
        return self._call("min", expr)

    def _print_where(self, expr: Expr) -> str:
        c, x, y = (self._print(a) for a in expr.args)
        return f"(({x}) if ({c}) > 0.0 else ({y}))"

    def _print_sign(self, expr: Expr) -> str:
        x = self._print(expr.args[0])
        return f"(1.0 if ({x}) > 0.0 else (-1.0 if ({x}) < 0.0 else 0.0))"

    def _print_sigmoid(self, expr: Expr) -> str:
        return f"(0.5 + 0.5*math.tanh(0.5*({self._print(expr.args[0])})))"

    def _print_softplus(self, expr: Expr) -> str:
        x = self._print(expr.args[0])
        return f"(max({x}, 0.0) + math.log1p(math.exp(-abs({x}))))"

    def _print_sech(self, expr: Expr) -> str:
        return f"(1.0/math.cosh({self._print(expr.args[0])}))"

    def _print_gelu(self, expr: Expr) -> str:
        x = self._print(expr.args[0])
        return f"(({x})*0.5*math.erfc(-({x})*0.7071067811865476))"

    def _print_Rational(self, expr: sympy.Rational) -> str:
        return repr(float(expr))

    _print_Integer = _print_Rational
