r"""Lines of formulas in LaTeX, and SymPy's printer in the notation of this package."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy
import sympy
from sympy import Expr
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE

from tplimits.program.nodes.entries import ArrayEntry, AxisSum, Lookup
from tplimits.program.nodes.stated import contents, rounded
from tplimits.report.latex_boxes import boxes_of, width_of
from tplimits.report.latex_lines import INDENT, LINE, lines
from tplimits.report.latex_names import name
from tplimits.report.rolled import Rolled, rolled
from tplimits.report.text import AsWritten

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

_BREAK = " \\\\\n  &\\qquad "
#: a left-hand side wider than this stands on a line of its own
_LEFT = 0.3 * LINE
#: more lines than this may not fit on one page
_A_PAGE = 12
#: so many rows make it worth to write layers once
_MANY = 30
#: and so many terms
_TERMS = 8
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


#: larger constant arrays are described
_A_MATRIX = 8


def constant(left: str, values: numpy.ndarray, note: str = "") -> Formula:
    """What a constant array is."""
    if values.ndim > 2 or max(values.shape) > _A_MATRIX:
        return Formula(left, "=", (rf"\text{{the constant array {contents(values)}}}{note}",))
    rows = numpy.atleast_2d(rounded(values)).tolist()
    body = r" \\ ".join(" & ".join(map(_entry, row)) for row in rows)
    column = r"^{\top}" if values.ndim == 1 else ""
    return Formula(left, "=", (rf"\begin{{pmatrix}} {body} \end{{pmatrix}}{column}{note}",))


def _entry(value: float) -> str:
    """An entry of a matrix: −2e-05 as −2 · 10⁻⁵."""
    sign, size = ("-" if value < 0 else ""), f"{abs(value):g}"
    return sign + (decimal(size) or size)


def constants(program: Program, rows: Sequence[Formula]) -> list[Formula]:
    """What the constant arrays and look-ups hold that stand in rows by number."""
    shown, printer = " ".join(map(str, rows)), FormulaPrinter()
    found = []
    for number, array in enumerate(program.arrays):
        if rf"c^{{({number})}}" in shown:
            found.append(constant(printer.array(number, [name(a) for a in array.axes]), array.values))
    for number, table in enumerate(program.tables):
        if rf"\pi_{{{number}}}(" in shown:
            note = r",\quad \text{0 is read at } {-1}" if table.smallest < 0 else ""
            found.append(constant(printer.table(number, [name(a) for a in table.axes]), table.values, note))
    return found


class FormulaPrinter(AsWritten, LatexPrinter):
    """SymPy's LaTeX with sums term by term, floats as they were written and functions by their names."""

    def summed(self, below: str, summand: Expr) -> str:
        """A sum over a finite axis; of several terms or of a negative one in brackets."""
        inside = self._print(summand)
        bare = not (isinstance(summand, sympy.Add) or inside.startswith("-"))
        return rf"\sum_{{{below}}} " + (inside if bare else rf"\left({inside}\right)")

    def array(self, number: int, indices: Sequence[str]) -> str:
        """An entry of a constant array."""
        return rf"c^{{({number})}}_{{{','.join(indices)}}}"

    def table(self, number: int, indices: Sequence[str]) -> str:
        """An index that is looked up."""
        return rf"\pi_{{{number}}}({','.join(indices)})"

    def _print_ArrayEntry(self, expr: ArrayEntry) -> str:
        return self.array(expr.array, [self._print(i) for i in expr.indices])

    def _print_Lookup(self, expr: Lookup) -> str:
        return self.table(expr.table, [self._print(i) for i in expr.indices])

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
        escaped = head.rstrip("′").replace("_", r"\_")
        command = _COMMANDS.get(head, rf"\operatorname{{{escaped}}}" + "'" * head.count("′"))
        inside = ", ".join(self._print(a) for a in expr.args)
        power = f"^{{{exp}}}" if exp is not None else ""
        return rf"{command}{power}\left({inside}\right)"

    def _print_Abs(self, expr: Expr, exp: str | None = None) -> str:
        """As SymPy does without braces between the bars, where no line would end."""
        return rf"\left|{self._print(expr.args[0])}\right|" + (f"^{{{exp}}}" if exp is not None else "")

    # SymPy prints these by methods of their own, in forms that are no functions of kets
    _print_tanh = _print_sin = _print_cos = _print_log = _print_sign = _print_DiracDelta = _print_Function
    _print_erf = _print_erfc = _print_asin = _print_acos = _print_atan = _print_Function


def decimal(text: str) -> str | None:
    """A float's text as LaTeX: 1e-05 as 1 \\cdot 10^{-5}; None for what is no number."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(?:e([+-]\d+))?", text)
    if not match:
        return None
    return match[1] + (rf" \cdot 10^{{{int(match[2])}}}" if match[2] else "")


#: functions that a paper has to define
_DEFINED = {
    "relu": (r"\operatorname{relu}(x)", r"\max(x, 0)"),
    "step": (r"\operatorname{step}(x)", r"1 \text{ where } x > 0, \text{ else } 0"),
    "sign": (r"\operatorname{sign}(x)", r"x / |x|,\quad \operatorname{sign}(0) = 0"),
    "leaky_relu": (r"\operatorname{leaky\_relu}(x, s)", r"x \text{ where } x > 0, \text{ else } s x"),
    "sigmoid": (r"\operatorname{sigmoid}(x)", r"1 / (1 + e^{-x})"),
    "softplus": (r"\operatorname{softplus}(x)", r"\log(1 + e^{x})"),
    "gelu": (r"\operatorname{gelu}(x)", r"x \left(1 + \operatorname{erf}(x / \sqrt{2})\right) / 2"),
    "erf": (r"\operatorname{erf}(x)", r"\frac{2}{\sqrt{\pi}} \int_{0}^{x} e^{-s^{2}}\,\mathrm{d}s"),
    "where": (r"\operatorname{where}(c, x, y)", r"x \text{ where } c > 0, \text{ else } y"),
    "truncated": (
        r"\operatorname{truncated}(x, c)",
        r"\sqrt{2}\,\operatorname{erf}^{-1}(\operatorname{erf}(c / \sqrt{2})\,\operatorname{erf}(x / \sqrt{2}))",
    ),
    "stop_gradient": (r"\operatorname{stop\_gradient}(x)", r"x,\text{ held where gradients are taken}"),
}


def with_definitions(rows: Sequence[Formula]) -> list[Formula]:
    r"""The rows, and what functions are that stand in them and in no textbook.

    >>> [str(row) for row in with_definitions([Formula("x", "=", (r"\operatorname{step}\left(h\right)",))])][1:]
    ['\\operatorname{step}(x) = 1 \\text{ where } x > 0, \\text{ else } 0']
    """
    shown = " ".join(map(str, rows))
    found = []
    for head, (left, right) in _DEFINED.items():
        escaped = head.replace("_", r"\_")
        if rf"\operatorname{{{escaped}}}" in shown or (
            head == "erf" and any(rf"\operatorname{{{f}}}" in shown for f in ("gelu", "truncated"))
        ):
            found.append(Formula(left, "=", (right,)))
    return [*rows, *found]


def rolled_rows(rows: Sequence[Formula]) -> list[Formula]:
    r"""The rows, layers that repeat once."""
    lines = ["\x00".join((row.left, row.relation, *row.right)) for row in rows]
    found: list[Formula] = []
    for item in rolled(lines, 2 if len(rows) > _MANY else len(rows) + 1):
        if isinstance(item, Rolled):
            found.append(Formula(r"\ell", "=", (rf"0, \ldots, {item.times - 1}:",)))
        for line in map(_layered, item.lines()) if isinstance(item, Rolled) else (item,):
            left, relation, *right = line.split("\x00")
            found.append(Formula(left, relation, tuple(_rolled_sum(right))))
    return found


def _rolled_sum(terms: Sequence[str]) -> list[str]:
    """The terms of a sum, those of layers that repeat once."""
    if len(terms) < _TERMS:
        return list(terms)
    found: list[str] = []
    for item in rolled(terms, 2):
        if isinstance(item, Rolled):
            inside = " ".join(map(_layered, item.lines())).removeprefix("+ ")
            found.append(rf"+ \sum_{{\ell=0}}^{{{item.times - 1}}} \left({inside}\right)")
        else:
            found.append(item)
    return found


def _layered(text: str) -> str:
    """Numbers that grow with the layer, in LaTeX; no brackets where others stand around them."""
    text = re.sub(r"(?<=[{(=,])\(([^(){}=,]*ℓ)\)(?=[}),])", r"\1", text)
    return text.replace("−", "-").replace("ℓ", r"\ell ").replace(r"\ell }", r"\ell}").replace(r"\ell )", r"\ell)")


def environment(rows: Sequence[Formula], environment: str) -> str:
    """Lines in an environment of amsmath, of a width that an article has."""
    margin = max((wide for row in rows if (wide := width_of(boxes_of(row.left))) <= _LEFT), default=0.0)
    body = " \\\\\n  ".join(row.aligned(margin) for row in rows)
    return f"\\begin{{{environment}}}\n  {body}\n\\end{{{environment}}}"


def fragment(rows: Sequence[Formula]) -> str:
    """Lines that a user pastes, over several pages if they are many."""
    made = environment(rows, "align*")
    return made if made.count(r"\\") < _A_PAGE else f"{{\\allowdisplaybreaks\n{made}\n}}"
