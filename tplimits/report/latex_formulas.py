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
from tplimits.report.latex_boxes import boxes_of, width_of
from tplimits.report.latex_lines import INDENT, LINE, lines
from tplimits.report.text import AsWritten

_BREAK = " \\\\\n  &\\qquad "
#: a left-hand side wider than this stands on a line of its own
_LEFT = 0.3 * LINE
#: more lines than this may not fit on one page
_A_PAGE = 12
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

    def aligned(self, margin: float = 0.0) -> str:
        r"""For an align environment whose left-hand sides have a margin: broken where it is longer than a line.

        >>> row = Formula("x", "=", ("a" * 30, "- " + "b" * 50))
        >>> print(row.aligned().replace("a" * 30, "A").replace("b" * 50, "B"))
        x &= A \\
          &\qquad - B
        """
        left = lines(self.left, LINE - margin)
        own_line = width_of(boxes_of(self.left)) > max(margin, _LEFT)
        relation = f"{self.relation} " if self.relation else ""
        used = width_of(boxes_of(self.relation)) + margin
        rows = lines(" ".join(self.right), LINE - used - (INDENT if own_line else 0.0))
        if not own_line:
            return f"{self.left} &{relation}" + _BREAK.join(rows)
        return "&" + _BREAK.join([*left, relation + rows[0], *(rf"\qquad {row}" for row in rows[1:])])


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
    """Lines in an environment of amsmath, of a width that an article has."""
    margin = max((wide for row in rows if (wide := width_of(boxes_of(row.left))) <= _LEFT), default=0.0)
    body = " \\\\\n  ".join(row.aligned(margin) for row in rows)
    return f"\\begin{{{environment}}}\n  {body}\n\\end{{{environment}}}"


def fragment(rows: Sequence[Formula]) -> str:
    """Lines that a user pastes, over several pages if they are many."""
    made = environment(rows, "align*")
    return made if made.count(r"\\") < _A_PAGE else f"{{\\allowdisplaybreaks\n{made}\n}}"
