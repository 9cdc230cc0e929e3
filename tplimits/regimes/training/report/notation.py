r"""How training is written: kets with the time at their names, |h_t⟩, in plain text and in LaTeX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import sympy
from sympy import Expr

from tplimits.program.language.render import BodyPrinter, number_text
from tplimits.program.nodes.entries import NO_NEURON, OWN, ArrayEntry, AxisSum, DataIndex, Entry, Kron, Lookup
from tplimits.regimes.kernels.report.latex import label
from tplimits.regimes.training.report.update_functions import norm_latex, norm_text, whole_latex, whole_text
from tplimits.report.latex_formulas import FormulaPrinter, decimal

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.training.derivation.norms import Norm, WholeNorm


def latex_label(text: str) -> str:
    r"""A name of a total program in LaTeX.

    >>> print(latex_label("ds←x1"), latex_label("d^shift b"))
    \mathrm{ds}{\leftarrow}x_{1} d^{\mathrm{shift}}b
    """
    if text.startswith("d^shift "):
        return rf"d^{{\mathrm{{shift}}}}{latex_label(text.removeprefix('d^shift '))}"
    return r"{\leftarrow}".join(label(part) for part in text.split("←"))


class Notation(Protocol):
    """Pieces of formulas."""

    #: the mark of a transpose, and the letter of the learning rate
    transpose: str
    rate: str

    def timed(self, label: str, t: str) -> str:
        """A name at a time."""

    def ket(self, inside: str) -> str:
        """|inside⟩."""

    def bra(self, inside: str) -> str:
        """⟨inside|."""

    def mean(self, inside: str) -> str:
        """⟨1|inside⟩."""

    def product(self, dh: str, x: str, t: str, at: str) -> str:
        """|dh⟩_{χ_t}⟨x|, summed over inputs and outputs, or at one output `at`."""

    def signal(self, t: str, at: str) -> str:
        """χ_t, at one output or summed over."""

    def indices(self, pairs: list[tuple[str, str]]) -> str:
        """Axes of the output and the axes of a parameter that they are equal to."""

    def kronecker(self, axis: str, index: str) -> str:
        """1 at one index of an axis, 0 elsewhere."""

    def bar(self, inside: str, t: str) -> str:
        """The update function of step t, of everything up to then."""

    def past(self, factor: str, summand: str) -> str:
        """Σ_{s<t} of the updates so far."""

    def power(self, base: str, exponent: str) -> str:
        """A power."""

    def divided(self, bar: str, name: str, t: str) -> str:
        """An update by the norm ν of a parameter."""

    def divisor(self, name: str, t: str) -> str:
        """That norm."""

    def clipped(self, gradient: str, t: str) -> str:
        """A gradient by the norm ν of the whole gradient."""

    def whole_divisor(self, t: str) -> str:
        """That norm."""

    def norm(self, inside: str, norm: Norm) -> str:
        """√(widths Σ_axes E[inside²]), or the larger or smaller of it and θ."""

    def whole_norm(self, gradients: Mapping[str, str], norm: WholeNorm) -> str:
        """The same of the whole gradient."""

    def body(self, expr: Expr, data: frozenset[int]) -> str:
        """A body at time t; `data` are instructions without a time."""

    def number(self, expr: Expr) -> str:
        """A number."""


class _TimedBody(BodyPrinter):
    """Bodies with every entry as a ket at time t."""

    def __init__(self, program: Program, data: frozenset[int]) -> None:
        super().__init__(program, {})
        self._data = data

    def _print_Entry(self, expr: Entry) -> str:
        s = self._program[expr.source]
        time = "" if expr.source in self._data else "_t"
        inside = ", ".join(self._print(i) for i in expr.indices)
        shown = f"{s.name}{time}" + (f"[{inside}]" if inside else "")
        if expr.neuron == NO_NEURON:
            return shown
        return f"|{shown}⟩" if expr.neuron == OWN else f"|{shown}⟩□"


class TextNotation:
    """Plain text: Q_t(|dh_t⟩_χ_t⟨x_t|)."""

    transpose, rate = "ᵀ", "η"

    def __init__(self, program: Program) -> None:
        self._program = program

    def timed(self, label: str, t: str) -> str:
        return f"{label}_{t}" if len(t) == 1 else f"{label}_{{{t}}}"

    def ket(self, inside: str) -> str:
        return f"|{inside}⟩"

    def bra(self, inside: str) -> str:
        return f"⟨{inside}|"

    def mean(self, inside: str) -> str:
        return f"⟨1|{inside}⟩"

    def product(self, dh: str, x: str, t: str, at: str) -> str:
        return f"|{dh}⟩_{self.signal(t, at)}⟨{x}|"

    def signal(self, t: str, at: str) -> str:
        return self.timed("χ", t) + (f"[{at}]" if at else "")

    def indices(self, pairs: list[tuple[str, str]]) -> str:
        return ", ".join(a if a == b else f"{a}={b}" for a, b in pairs)

    def kronecker(self, axis: str, index: str) -> str:
        return f"δ[{axis}={index}] "

    def bar(self, inside: str, t: str) -> str:
        return f"Q_{t}({inside})"

    def past(self, factor: str, summand: str) -> str:
        return f"− η Σ_{{s<t}} {factor}{summand}"

    def power(self, base: str, exponent: str) -> str:
        return f"{base}^{exponent}" if len(exponent) == 1 else f"{base}^({exponent})"

    def divided(self, bar: str, name: str, t: str) -> str:
        return f"{bar}/{self.divisor(name, t)}"

    def divisor(self, name: str, t: str) -> str:
        return f"ν_{t}[{name}]"

    def clipped(self, gradient: str, t: str) -> str:
        return f"({gradient})/{self.whole_divisor(t)}" if " + " in gradient else f"{gradient}/{self.whole_divisor(t)}"

    def whole_divisor(self, t: str) -> str:
        return self.timed("ν", t)

    def norm(self, inside: str, norm: Norm) -> str:
        return norm_text(inside, norm)

    def whole_norm(self, gradients: Mapping[str, str], norm: WholeNorm) -> str:
        return whole_text(gradients, norm)

    def body(self, expr: Expr, data: frozenset[int]) -> str:
        return _TimedBody(self._program, data).doprint(expr)

    def number(self, expr: Expr) -> str:
        return number_text(expr)


class NamedLatex(FormulaPrinter):
    """LaTeX with symbols in the names of programs."""

    def _print_Symbol(self, expr: sympy.Symbol, style: str = "plain") -> str:
        return decimal(expr.name) or latex_label(expr.name)


class _TimedLatex(NamedLatex):
    r"""Bodies in LaTeX, entries as |x_t\rangle."""

    def __init__(self, program: Program, data: frozenset[int]) -> None:
        super().__init__()
        self._program, self._data = program, data

    def _print_Entry(self, expr: Entry) -> str:
        shown = latex_label(self._program[expr.source].name)
        below = [self._print(i) for i in expr.indices]
        if expr.source not in self._data:
            below.insert(0, "t")
        shown = f"{{{shown}}}_{{{','.join(below)}}}" if below else shown
        if expr.neuron == NO_NEURON:
            return shown
        return rf"|{shown}\rangle" if expr.neuron == OWN else rf"|{shown}\rangle^{{\boxed{{1}}}}"

    def _print_AxisSum(self, expr: AxisSum) -> str:
        return rf"\sum_{{{self._print(expr.bound)}}} {self.parenthesize(expr.summand, 40)}"

    def _print_ArrayEntry(self, expr: ArrayEntry) -> str:
        return rf"c^{{({expr.array})}}_{{{','.join(self._print(i) for i in expr.indices)}}}"

    def _print_Lookup(self, expr: Lookup) -> str:
        return rf"\pi_{{{expr.table}}}({','.join(self._print(i) for i in expr.indices)})"

    def _print_DataIndex(self, expr: DataIndex) -> str:
        shown = latex_label(self._program[expr.source].name)
        return f"{{{shown}}}_{{{','.join(self._print(i) for i in expr.indices)}}}" if expr.indices else shown

    def _print_Kron(self, expr: Kron) -> str:
        return rf"\delta_{{{','.join(self._print(i) for i in expr.indices)}}}"


class LatexNotation:
    r"""LaTeX: \overline{|dh_t\rangle_{\chi_t}\langle x_t|}."""

    transpose, rate = r"^{\top}", r"\eta"

    def __init__(self, program: Program) -> None:
        self._program = program

    def timed(self, label: str, t: str) -> str:
        return f"{{{latex_label(label)}}}_{{{t}}}"

    def ket(self, inside: str) -> str:
        return rf"|{inside}\rangle"

    def bra(self, inside: str) -> str:
        return rf"\langle {inside}|"

    def mean(self, inside: str) -> str:
        return rf"\langle 1|{inside}\rangle"

    def product(self, dh: str, x: str, t: str, at: str) -> str:
        return rf"|{dh}\rangle_{{\chi_{{{t}}}{self._above(at)}}}\langle {x}|"

    def signal(self, t: str, at: str) -> str:
        return self.timed("χ", t) + self._above(at)

    def _above(self, at: str) -> str:
        return f"^{{{at}}}" if at else ""

    def indices(self, pairs: list[tuple[str, str]]) -> str:
        return ",".join(latex_label(a) if a == b else f"{latex_label(a)}={latex_label(b)}" for a, b in pairs)

    def kronecker(self, axis: str, index: str) -> str:
        return rf"\delta_{{{latex_label(axis)}={index}}}\,"

    def bar(self, inside: str, t: str) -> str:
        return rf"\overline{{{inside}}}"

    def past(self, factor: str, summand: str) -> str:
        return rf"- \eta \sum_{{s<t}} {factor}{summand}"

    def power(self, base: str, exponent: str) -> str:
        return f"{base}^{{{exponent}}}"

    def divided(self, bar: str, name: str, t: str) -> str:
        return rf"{bar}\big/{self.divisor(name, t)}"

    def divisor(self, name: str, t: str) -> str:
        return rf"\nu^{{{latex_label(name)}}}_{{{t}}}"

    def clipped(self, gradient: str, t: str) -> str:
        inside = rf"\big({gradient}\big)" if " + " in gradient else gradient
        return rf"{inside}\big/{self.whole_divisor(t)}"

    def whole_divisor(self, t: str) -> str:
        return rf"\nu_{{{t}}}"

    def norm(self, inside: str, norm: Norm) -> str:
        return norm_latex(inside, norm)

    def whole_norm(self, gradients: Mapping[str, str], norm: WholeNorm) -> str:
        return whole_latex(gradients, norm)

    def body(self, expr: Expr, data: frozenset[int]) -> str:
        return _TimedLatex(self._program, data).doprint(expr)

    def number(self, expr: Expr) -> str:
        return FormulaPrinter().doprint(expr)
