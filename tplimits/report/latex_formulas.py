r"""Lines of formulas in LaTeX, and SymPy's printer in the notation of this package."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import sympy
from sympy import Expr
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE

from tplimits.program.nodes.entries import AxisSum
from tplimits.report.text import AsWritten

#: letters and signs that fit on one line of an align, about
_LINE = 90
_BREAK = " \\\\\n  &\\qquad "
#: functions whose LaTeX command is not their own name in \operatorname
_COMMANDS = {
    **{f: rf"\{f}" for f in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "log")},
    **{"asin": r"\arcsin", "acos": r"\arccos", "atan": r"\arctan", "DiracDelta": r"\delta"},
    **{"maximum": r"\max", "minimum": r"\min"},
}


@dataclass(frozen=True)
class Formula:
    r"""One line of a limit: `left relation right`, the right-hand side as addends a long line may break at."""

    left: str
    relation: str
    right: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {' '.join(self.right)}"

    def aligned(self) -> str:
        r"""For an align environment: broken between addends where it is longer than a line.

        >>> row = Formula("x", "=", ("a" * 60, "- " + "b" * 60))
        >>> print(row.aligned().replace("a" * 60, "A").replace("b" * 60, "B"))
        x &= A \\
          &\qquad - B
        """
        lines, length = [""], len(_seen(self.left))
        for part in self.right:
            size = len(_seen(part))
            if lines[-1] and length + size > _LINE:
                lines.append("")
                length = 0
            lines[-1] += (" " if lines[-1] else "") + part
            length += size
        return f"{self.left} &{self.relation} " + _BREAK.join(lines)


class Lines(Formula):
    """A formula whose right-hand side is given line by line."""

    def aligned(self) -> str:
        return f"{self.left} &{self.relation} " + _BREAK.join(self.right)


def _seen(text: str) -> str:
    """About what is visible of a formula: commands count as one sign, braces as none."""
    return re.sub(r"\\(?:left|right|operatorname|mathrm)|[{}^_\s]", "", re.sub(r"\\[A-Za-z]+(?=\W)", "x", text))


class FormulaPrinter(AsWritten, LatexPrinter):
    """SymPy's LaTeX with sums term by term, floats as they were written and functions by their names."""

    def summed(self, below: str, summand: Expr) -> str:
        """A sum over a finite axis; of several terms or of a negative one in brackets."""
        inside = self._print(summand)
        bare = not (isinstance(summand, sympy.Add) or inside.startswith("-"))
        return rf"\sum_{{{below}}} " + (inside if bare else rf"\left({inside}\right)")

    def parenthesize(self, item: Expr, level: int, is_neg: bool = False, strict: bool = False) -> str:
        """As SymPy does; a power of a sum over an axis is not that of its last factor."""
        shown = str(super().parenthesize(item, level, is_neg, strict))
        powered = isinstance(item, AxisSum) and level >= PRECEDENCE["Pow"]
        return rf"\left({shown}\right)" if powered else shown

    def _needs_mul_brackets(self, expr: Expr, first: bool = False, last: bool = False) -> bool:
        summed = isinstance(expr, AxisSum) and not last
        return summed or bool(super()._needs_mul_brackets(expr, first, last))

    def _print_Function(self, expr: Expr, exp: str | None = None) -> str:
        head = type(expr).__name__
        escaped = head.replace("_", r"\_")
        command = _COMMANDS.get(head, rf"\operatorname{{{escaped}}}")
        inside = ", ".join(self._print(a) for a in expr.args)
        power = f"^{{{exp}}}" if exp is not None else ""
        return rf"{command}{power}\left({inside}\right)"

    # SymPy prints these by methods of their own, in forms that are no functions of kets
    _print_tanh = _print_sin = _print_cos = _print_log = _print_sign = _print_DiracDelta = _print_Function
    _print_erf = _print_erfc = _print_asin = _print_acos = _print_atan = _print_Function


def decimal(text: str) -> str | None:
    """A float's text as LaTeX: 1e-05 as 1 \\cdot 10^{-5}; None for what is no number."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(?:e([+-]\d+))?", text)
    if not match:
        return None
    return match[1] + (rf" \cdot 10^{{{int(match[2])}}}" if match[2] else "")


def environment(rows: Sequence[Formula], environment: str) -> str:
    """Lines in an environment of amsmath."""
    body = " \\\\\n  ".join(row.aligned() for row in rows)
    return f"\\begin{{{environment}}}\n  {body}\n\\end{{{environment}}}"
