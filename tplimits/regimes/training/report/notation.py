r"""How training is written: kets with the time at their names, |h_t⟩, in plain text and in LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.law.state import in_widths_of_n
from tplimits.program.language.render import BodyPrinter, number_text
from tplimits.program.nodes.entries import NO_NEURON, OWN, AxisSum, DataIndex, Entry, Kron, N
from tplimits.program.nodes.scale import at_infinity
from tplimits.report.latex_formulas import FormulaPrinter, decimal
from tplimits.report.latex_names import label
from tplimits.report.letters import Letters, filled

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.regimes.training.derivation.norms import Norm, WholeNorm


def of_kets(program: Program) -> Program:
    """A program whose bodies are those of kets: powers of widths that vanish are left out."""

    def limit(expr: Expr) -> Expr:
        written = in_widths_of_n(expr, program)
        if not written.has(N):  # ratios of widths stay as they are written
            return expr
        try:
            return at_infinity(written)
        except ValueError:  # no limit of its own, as of what no output rests on
            return expr

    return program.changed(limit)


def latex_label(text: str) -> str:
    r"""A name of a total program in LaTeX.

    >>> print(latex_label("ds←x1"), latex_label("d^shift b"))
    \mathrm{ds}{\leftarrow}x_{1} d^{\mathrm{shift}}b
    """
    if text.startswith("d^shift "):
        return rf"d^{{\mathrm{{shift}}}}{latex_label(text.removeprefix('d^shift '))}"
    return r"{\leftarrow}".join(label(part) for part in text.split("←"))


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


class NamedLatex(FormulaPrinter):
    """LaTeX with symbols in the names of programs."""

    def _print_Symbol(self, expr: sympy.Symbol, style: str = "plain") -> str:
        bound = re.fullmatch(r"(\w+)′(\d+)", expr.name)  # a running index: d′1, d′2
        if bound:
            return latex_label(bound[1]) + "'" * int(bound[2])
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
        return self.summed(self._print(expr.bound), expr.summand)

    def _print_DataIndex(self, expr: DataIndex) -> str:
        shown = latex_label(self._program[expr.source].name)
        return f"{{{shown}}}_{{{','.join(self._print(i) for i in expr.indices)}}}" if expr.indices else shown

    def _print_Kron(self, expr: Kron) -> str:
        return rf"\delta_{{{','.join(self._print(i) for i in expr.indices)}}}"


#: templates by what they stand for: in plain text and in LaTeX
_SIGNS = {
    "transpose": ("ᵀ", r"^{{\top}}"),
    "rate": ("η", r"\eta"),
    "comma": (", ", ","),
    "gap": (" ", r"\,"),
    "after widths": (" ", ""),
    "timed": ("{}_{}", "{{{}}}_{{{}}}"),
    "timed by more": ("{}_{{{}}}", "{{{}}}_{{{}}}"),
    "ket": ("|{}⟩", r"|{}\rangle"),
    "mean": ("⟨1|{}⟩", r"\langle 1|{}\rangle"),
    "product": ("|{0}⟩_{4}⟨{3}|", r"|{0}\rangle_{{\chi_{{{1}}}{2}}}\langle {3}|"),
    "above": ("[{}]", "^{{{}}}"),
    "kronecker": ("δ[{}={}] ", r"\delta_{{{}={}}}\,"),
    "bar": ("Q_{1}({0})", r"\overline{{{0}}}"),
    "past": ("− η Σ_{{s<t}} {}{}", r"- \eta \sum_{{s<t}} {}{}"),
    "power": ("{}^{}", "{}^{{{}}}"),
    "power of more": ("{}^({})", "{}^{{{}}}"),
    "sum": ("({})", r"\big({}\big)"),
    "over": ("{}/{}", r"{}\big/{}"),
    "divisor": ("ν_{1}[{0}]", r"\nu^{{{0}}}_{{{1}}}"),
    "whole divisor": ("ν_{}", r"\nu_{{{}}}"),
    "root": ("√({})", r"\sqrt{{{}}}"),
    "root of a mean": ("√{}", r"\sqrt{{{}}}"),
    "sum over": ("Σ_{{{}}} ", r"\sum_{{{}}} "),
    "square": ("E[{}²]", r"\operatorname{{E}}\Big[\big({}\big)^2\Big]"),
    "square of a sum": ("E[({})²]", r"\operatorname{{E}}\Big[\big({}\big)^2\Big]"),
    "clipped": ("{}({}, {})", r"\{}\Big({}, {}\Big)"),
}


@dataclass(frozen=True)
class Alphabet:
    """One way to print: its templates among `_SIGNS`, names, numbers and bodies of instructions."""

    column: int
    name: Callable[[str], str]
    number: Callable[[Expr], str]
    body: Callable[[Program, frozenset[int]], BodyPrinter | FormulaPrinter]


#: plain text: Q_t(|dh_t⟩_χ_t⟨x_t|)
TEXT = Alphabet(0, str, number_text, _TimedBody)
#: LaTeX: \overline{|dh_t\rangle_{\chi_t}\langle x_t|}
LATEX = Alphabet(1, latex_label, lambda number: FormulaPrinter().doprint(sympy.sympify(number)), _TimedLatex)


class Notation:
    """Pieces of formulas in one alphabet, with letters of their own that are not those of the program."""

    def __init__(self, alphabet: Alphabet, letters: Letters) -> None:
        self._alphabet = alphabet
        #: text or LaTeX without names of the program, its letters told apart from these
        self.own = (letters.text, letters.latex)[alphabet.column]
        self.transpose, self.rate = self._put("transpose"), self._put("rate")

    def _put(self, sign: str, *parts: str) -> str:
        return filled(self.own, _SIGNS[sign][self._alphabet.column], parts)

    def number(self, expr: Expr) -> str:
        """A number."""
        return self._alphabet.number(expr)

    def body(self, program: Program, expr: Expr, data: frozenset[int]) -> str:
        """A body at time t; `data` are instructions without a time."""
        return str(self._alphabet.body(program, data).doprint(expr))

    def timed(self, label: str, t: str) -> str:
        """A name at a time."""
        return self._put("timed" if len(t) == 1 else "timed by more", self._alphabet.name(label), self.own(t))

    def letter(self, letter: str, t: str) -> str:
        """A letter that is no name of the program at a time."""
        return self._put("timed", self.own(self._alphabet.name(letter)), self.own(t))

    def ket(self, inside: str) -> str:
        """|inside⟩."""
        return self._put("ket", inside)

    def mean(self, inside: str) -> str:
        """⟨1|inside⟩."""
        return self._put("mean", inside)

    def product(self, dh: str, x: str, t: str, at: str) -> str:
        """|dh⟩_{χ_t}⟨x|, summed over inputs and outputs, or at one output `at`."""
        return self._put("product", dh, self.own(t), self._above(at), x, self.signal(t, at))

    def signal(self, t: str, at: str) -> str:
        """χ_t, at one output or summed over."""
        return self.letter("χ", t) + self._above(at)

    def _above(self, at: str) -> str:
        return self._put("above", at) if at else ""

    def indices(self, pairs: list[tuple[str, str]]) -> str:
        """Axes of the output and the axes of a parameter that they are equal to."""
        name = self._alphabet.name
        return self._put("comma").join(name(a) if a == b else f"{name(a)}={name(b)}" for a, b in pairs)

    def kronecker(self, axis: str, index: str) -> str:
        """1 at one index of an axis, 0 elsewhere."""
        return self._put("kronecker", self._alphabet.name(axis), index)

    def bar(self, inside: str, t: str) -> str:
        """The update function of step t, of everything up to then."""
        return self._put("bar", inside, self.own(t))

    def past(self, factor: str, summand: str) -> str:
        """Σ_{s<t} of the updates so far."""
        return self._put("past", factor, summand)

    def power(self, base: str, exponent: str) -> str:
        """A power."""
        return self._put("power" if len(exponent) == 1 else "power of more", base, self.own(exponent))

    def divided(self, bar: str, name: str, t: str) -> str:
        """An update by the norm ν of a parameter."""
        return self._put("over", bar, self.divisor(name, t))

    def divisor(self, name: str, t: str) -> str:
        """That norm."""
        return self._put("divisor", self._alphabet.name(name), self.own(t))

    def clipped(self, gradient: str, t: str) -> str:
        """A gradient by the norm ν of the whole gradient."""
        inside = self._put("sum", gradient) if " + " in gradient else gradient
        return self._put("over", inside, self.whole_divisor(t))

    def whole_divisor(self, t: str) -> str:
        """That norm."""
        return self._put("whole divisor", self.own(t))

    def norm(self, inside: str, norm: Norm) -> str:
        """√(widths Σ_axes E[inside²]), with the threshold of clipping; `inside` is all of initial weights."""
        if norm.is_of_start:
            root = "" if norm.widths == 1 else self._put("root", self.number(norm.widths))
            return self._put("gap").join(filter(None, (inside, root))) or "1"
        bare = norm.widths == 1 and not norm.axes
        return self._at_most(
            self._put("root of a mean" if bare else "root", self._square(inside, norm)), norm.optimizer
        )

    def whole_norm(self, gradients: Mapping[str, str], norm: WholeNorm) -> str:
        """The same of the whole gradient."""
        squares = (self._square(gradients[name], part, " of a sum") for name, part in norm.parts.items())
        return self._at_most(self._put("root", " + ".join(squares)), norm.optimizer)

    def _square(self, inside: str, norm: Norm, kind: str = "") -> str:
        widths = "" if norm.widths == 1 else self.number(norm.widths) + self._put("after widths")
        axes = self._put("comma").join(map(self._alphabet.name, norm.axes))
        return widths + (self._put("sum over", axes) if axes else "") + self._put(f"square{kind}", inside)

    def _at_most(self, root: str, optimizer: Optimizer) -> str:
        """The larger or smaller of a norm and the threshold of its optimizer, if that has one."""
        clip = optimizer.clips_at
        return root if clip is None else self._put("clipped", clip[0], self.number(clip[1]), root)
