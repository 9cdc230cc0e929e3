r"""LaTeX in the bra-ket notation of Tensor Programs: |x\rangle, |Wx\hat\rangle, |Wx\dot\rangle.

The fragments need amsmath and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import sympy
from sympy import Expr, Symbol
from sympy.printing.latex import LatexPrinter

from tplimits.limit.gaussians import CopySource, HatSource, InitialSource
from tplimits.limit.kets import DotTerm, Ket, Key
from tplimits.limit.moments import BoxMean, Expectation
from tplimits.limit.state import State
from tplimits.program.nodes import InitialMatrix, InitialScalar, InitialVector
from tplimits.program.program import Program
from tplimits.report.latex_names import name
from tplimits.report.text import as_written, positive_first, shown
from tplimits.report.writing import Writer

#: letters and signs that fit on one line of an align, about
_LINE = 90
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
        return f"{self.left} &{self.relation} " + " \\\\\n  &\\qquad ".join(lines)


def _seen(text: str) -> str:
    """About what is visible of a formula: commands count as one sign, braces as none."""
    return re.sub(r"\\(?:left|right|operatorname|mathrm)|[{}^_\s]", "", re.sub(r"\\[A-Za-z]+(?=\W)", "x", text))


class Printer(LatexPrinter):
    """SymPy's LaTeX with Gaussian variables as kets and means as brackets."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self._state = state
        self._boxes: dict[tuple[int, ...], int] = {}
        self._fluctuations = {f.symbol: f for f in state.fluctuations.values()}

    def doprint(self, expr: Expr) -> str:
        return str(super().doprint(as_written(expr)))

    def addends(self, expr: Expr) -> tuple[str, ...]:
        """A sum term by term, each with its sign; any other expression whole."""
        if not isinstance(expr, sympy.Add):
            return (self.doprint(expr),)
        terms = self._as_ordered_terms(as_written(expr))
        shown = [self.doprint(terms[0])]
        for term in terms[1:]:
            text = self.doprint(term)
            shown.append("- " + text[1:].lstrip() if text.startswith("-") else "+ " + text)
        return tuple(shown)

    def _as_ordered_terms(self, expr: Expr, order: str | None = None) -> list[Expr]:
        return positive_first(super()._as_ordered_terms(expr, order))

    def _print(self, expr: Expr, **options: object) -> str:
        if isinstance(expr, Expectation):  # it has a LaTeX of its own, which knows no kets
            return rf"\operatorname{{E}}\left[{self._print(expr.integrand)}\right]"
        return str(super()._print(expr, **options))

    def _print_Symbol(self, expr: Symbol, style: str = "plain") -> str:
        source = self._state.gaussians.source.get(expr)
        if expr in self._fluctuations:
            fluctuation = self._fluctuations[expr]
            return rf"\sqrt{{{name(fluctuation.over)}}}\,{name(self._state.label(fluctuation.key))}"
        if source is None:
            return decimal(expr.name) or name(expr.name)
        if isinstance(source, CopySource):
            return self._ket(source.original) + rf"^{{\boxed{{{self._box(source)}}}}}"
        return self._ket(expr)

    def _ket(self, symbol: Symbol) -> str:
        source = self._state.gaussians.source.get(symbol)
        if isinstance(source, CopySource):  # one box is shown, whatever is in it
            return self._ket(source.original)
        if isinstance(source, HatSource):
            return rf"|{name(self._state.uses[source.view][source.use].result)}\hat{{\rangle}}"
        if isinstance(source, InitialSource):
            return rf"|{name(symbol.name)}\rangle"
        return name(symbol.name)  # the standard normal of tp.expect

    def _box(self, source: CopySource) -> int:
        """The number shown for a box; a copy of a copy sits in a box of its own."""
        chain, inner = [source.box], self._state.gaussians.source.get(source.original)
        while isinstance(inner, CopySource):
            chain.append(inner.box)
            inner = self._state.gaussians.source.get(inner.original)
        return self._boxes.setdefault(tuple(chain), len(self._boxes) + 1)

    def _print_BoxMean(self, expr: BoxMean) -> str:
        sources = (self._state.gaussians.source.get(v) for v in expr.boxed)
        boxes = sorted({self._box(s) for s in sources if isinstance(s, CopySource)})
        under = ",".join(rf"\boxed{{{b}}}" for b in boxes)
        return rf"\operatorname{{E}}_{{{under}}}\left[{self._print(expr.integrand)}\right]"

    def _print_Pow(self, expr: sympy.Pow) -> str:
        base, power = expr.as_base_exp()
        if base.is_Symbol and power.is_Integer and power > 0:
            shown = self._print(base)
            if "^" in shown or base in self._fluctuations:
                return rf"\left({shown}\right)^{{{self._print(power)}}}"
        return super()._print_Pow(expr)

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


def _named_ket(label: str) -> str:
    return rf"|{name(label)}\rangle"


def _derivative(printer: Printer, term: DotTerm) -> str:
    return rf"\operatorname{{E}}\frac{{\partial {_named_ket(term.operand)}}}{{\partial {printer.doprint(term.hat)}}}"


def _factor(printer: Printer, term: DotTerm) -> str:
    return "" if term.factor == 1 else printer.doprint(term.factor) + r"\,"


def _image(printer: Printer, state: State, written: Writer, ket: Ket) -> list[Formula]:
    """Hat, covariance row and dot of an image W x."""
    label = name(ket.label)
    hat, dot = rf"|{label}\hat{{\rangle}}", rf"|{label}\dot{{\rangle}}"
    rows = [Formula(rf"|{label}\rangle", "=", (hat, f"+ {dot}"))]
    source = state.gaussians.source.get(ket.hat) if ket.hat is not None else None
    if isinstance(source, HatSource):
        for other in state.uses[source.view][: source.use + 1]:
            value = shown(written(state.engine.covariance(ket.hat, other.hat)))
            left = rf"\mathrm{{Cov}}\left({hat}, {printer.doprint(other.hat)}\right)"
            rows.append(Formula(left, "=", printer.addends(value)))
    elif ket.hat is not None:
        rows.append(Formula(hat, "=", printer.addends(ket.hat)))
    if not ket.dot:
        return [*rows, Formula(dot, "=", ("0",))]
    terms = [_factor(printer, t) + rf"{_named_ket(t.partner)}\," + _derivative(printer, t) for t in ket.dot]
    rows.append(Formula(dot, "=", (terms[0], *(f"+ {t}" for t in terms[1:]))))
    return [*rows, *(_coefficient(printer, written, t, len(ket.dot) == 1) for t in ket.dot)]


def _coefficient(printer: Printer, written: Writer, term: DotTerm, alone: bool) -> Formula:
    """The coefficient of a dot term in derivative form, in Stein form where one bracket gives it, and its value."""
    factor, partner = _factor(printer, term), name(term.partner)
    first, *others = printer.addends(shown(written(term.coefficient)))
    if alone:
        bra = printer.doprint(term.hat).replace("|", r"\langle ", 1).replace(r"\hat{\rangle}", r"\hat{|}")
        stein = rf"{factor}\langle {partner}|{partner}\rangle^{{+}}\,{bra}\,{name(term.operand)}\rangle"
        first = f"{stein} = {first}"
    return Formula(factor + _derivative(printer, term), "=", (first, *others))


def _rows(program: Program, state: State, printer: Printer, written: Writer, key: Key) -> list[Formula]:
    """What there is to say about one entry of one instruction."""
    instruction, label = program[key[0]], state.label(key)
    if isinstance(instruction, (InitialMatrix, InitialScalar)):
        return []
    if key in state.scalars:
        return [Formula(name(label), r"\to", printer.addends(shown(written(state.scalars[key]))))]
    if isinstance(instruction, InitialVector):
        law = instruction.law
        normal = rf"\mathcal{{N}}\left({printer.doprint(law.mean)}, {printer.doprint(law.std**2)}\right)"
        return [Formula(_named_ket(label), r"\sim", (normal,))]
    if state.kets[key].hat is not None:
        return _image(printer, state, written, state.kets[key])
    return [Formula(_named_ket(label), "=", printer.addends(written(state.kets[key].expr)))]


def formulas(program: Program, state: State) -> list[Formula]:
    """The whole limit, one instruction after the other, then the variances of what stays random."""
    printer, written = Printer(state), Writer(state)
    keys = sorted([*state.kets, *state.scalars])
    rows = [row for key in keys for row in _rows(program, state, printer, written, key)]
    for (a, b), value in state.covariances.items():
        if a == b:
            right = printer.addends(shown(written(value)))
            rows.append(Formula(rf"\mathrm{{Var}}\left({printer.doprint(a)}\right)", r"\to", right))
    rows += [Formula(name(s.name), "=", printer.addends(value)) for s, value in written.definitions()]
    if written.left_out:
        rows.append(Formula(r"\ldots", "", (rf"\text{{{written.left_out} more constants}}",)))
    return rows


def _environment(rows: Sequence[Formula], environment: str) -> str:
    body = " \\\\\n  ".join(row.aligned() for row in rows)
    return f"\\begin{{{environment}}}\n  {body}\n\\end{{{environment}}}"


def width_limit(program: Program, state: State) -> str:
    """The limit as an align* environment."""
    return _environment(formulas(program, state), "align*")


def notebook(program: Program, state: State) -> str:
    """The limit for MathJax and KaTeX, which want dollars around an aligned environment."""
    return f"$$\n{_environment(formulas(program, state), 'aligned')}\n$$"


def expression(state: State, expr: Expr) -> str:
    """One expression of a limit, such as a bracket, as math."""
    return Printer(state).doprint(expr)
