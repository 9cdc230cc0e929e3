"""A kernel limit in LaTeX (amsmath)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sympy import Expr, Function, Symbol

from tplimits.program.nodes.kinds import Avg, MatMul
from tplimits.regimes.kernels.report.outline import Equation, Layers, Named, NamedMean, Outline
from tplimits.report.latex_formulas import Formula, FormulaPrinter, constants, decimal
from tplimits.report.latex_names import label, name

if TYPE_CHECKING:
    from tplimits.program.nodes.entries import AxisSum, Entry, Kron
    from tplimits.regimes.kernels.derivation.closing import MeanFunction
    from tplimits.regimes.kernels.derivation.leaves import Data, Datum, DrawMean
    from tplimits.regimes.kernels.report.labels import Title
    from tplimits.regimes.kernels.report.softmaxes import Softmax


def title_latex(title: Title) -> str:
    """K_{x}^{(ℓ)}."""
    above = f"^{{({title.layer.replace('ℓ', chr(92) + 'ell')})}}" if title.layer else ""
    if not title.kind:
        shown = label(title.vectors)
        return rf"{{{shown}}}{above}" if above else shown
    below = f"_{{{label(title.vectors)}}}" if title.vectors else ""
    return {"K": "K", "Θ": r"\Theta", "E": r"\operatorname{E}"}.get(title.kind, "") + below + above


def _ket(vector: str) -> str:
    return rf"{{|{label(vector)}\rangle}} "  # in braces: no line ends inside


class Printer(Named, FormulaPrinter):
    """Entries of tables, of data and of logits in the names of the program."""

    def __init__(self, outline: Outline) -> None:
        super().__init__()
        self._outline, self.title, self.ket = outline, title_latex, _ket
        self._inputs = {1: _of_side(outline.input), 2: _of_side(f"{outline.input}′")}
        self.pair = ", ".join(self._inputs.values())

    def at(self, shown: str, sides: tuple[int, ...], indices: tuple[Expr, ...]) -> str:
        """A quantity at inputs and indices."""
        below = f"_{{{','.join(map(self._print, indices))}}}" if indices else ""
        return rf"{shown}({', '.join(self._inputs[s] for s in sides)}){below}"

    def _print_Data(self, expr: Data | Datum) -> str:
        shown = _of_side(self._outline.derivation.network[expr.source].name + "′" * (expr.side == 2))
        return f"{{{shown}}}_{{{','.join(map(self._print, expr.indices))}}}" if expr.indices else shown

    def _print_Kron(self, expr: Kron) -> str:
        return rf"\delta_{{{','.join(map(self._print, expr.args))}}}"

    def _print_AxisSum(self, expr: AxisSum) -> str:
        return self.summed(rf"{self._print(expr.bound)} \in {_of_side(expr.axis)}", expr.summand)

    def _print_Softmax(self, expr: Softmax) -> str:
        below = rf"{self._print(expr.index)} \in {_of_side(expr.axis)}"
        return rf"\operatorname{{softmax}}_{{{below}}}\left({self._print(expr.family)}\right)"

    def _print_DrawMean(self, expr: DrawMean) -> str:
        return rf"\operatorname{{E}}\left[{self._print(expr.product)}\right]"

    def _print_Symbol(self, expr: Symbol, style: str = "plain") -> str:
        if expr.name.startswith("|") and expr.name.endswith("|"):
            return rf"|{_of_side(expr.name[1:-1])}|"
        return decimal(expr.name) or _of_side(expr.name)

    def _print_Function(self, expr: Expr, exp: str | None = None) -> str:
        head = type(expr).__name__
        if head not in self._outline.means.values():
            return super()._print_Function(expr, exp)
        power = f"^{{{exp}}}" if exp is not None else ""
        return rf"{mean_name(head)}{power}\left({', '.join(map(self._print, expr.args))}\right)"

    # SymPy prints some functions by methods of their own, which are looked up by name
    _print_tanh = _print_sin = _print_cos = _print_log = _print_sign = _print_DiracDelta = _print_Function
    _print_erf = _print_erfc = _print_asin = _print_acos = _print_atan = _print_Function

    def equation(self, equation: Equation) -> Formula:
        """One definition."""
        left = self.at(title_latex(equation.title), (1, 2)[: equation.inputs], equation.indices)
        return Formula(left, "=", self.addends(equation.right))

    def mean(self, named: NamedMean) -> Iterator[Formula]:
        """A named mean with its law, and its closed form."""
        function = named.function
        arguments = ", ".join(map(self._print, function.arguments))
        left = rf"{mean_name(named.name)}({arguments})"
        yield Formula(
            left, "=", (rf"\operatorname{{E}}\left[{self.doprint(named.integrand)}\right],", self._law(function))
        )
        if named.closed is not None:
            first, *others = self.addends(named.closed)
            yield Formula("{}", "=", (first, *others))

    def _law(self, function: MeanFunction) -> str:
        variables = ", ".join(map(self._print, function.variables))
        size = range(len(function.variables))
        if len(size) == 1:
            return rf"\quad {variables} \sim \mathcal{{N}}\left(0, {self._print(function.covariance(0, 0))}\right)"
        rows = (" & ".join(self._print(function.covariance(i, j)) for j in size) for i in size)
        matrix = r"\begin{pmatrix} " + r" \\ ".join(rows) + r" \end{pmatrix}"
        return rf"\quad ({variables}) \sim \mathcal{{N}}\left(0, {matrix}\right)"


class _Body(FormulaPrinter):
    """Instructions without indices, anonymous vectors written out."""

    def __init__(self, outline: Outline) -> None:
        super().__init__()
        self._program, self._labels = outline.derivation.network, outline.titles.labels

    def instruction(self, position: int) -> str:
        """The right-hand side of an instruction."""
        s = self._program[position]
        if isinstance(s, Avg):
            return rf"\left\langle {self.doprint(s.operand)}\right\rangle "
        body = getattr(s, "body", None)
        return label(self._labels.written(position, inline=False)) if body is None else self.doprint(body)

    def _print_Entry(self, expr: Entry) -> str:
        s = self._program[expr.source]
        if not s.name.startswith("_"):
            return name(s.name)
        shown = self.instruction(expr.source)
        return shown if isinstance(s, (Avg, MatMul)) else rf"\left({shown}\right)"

    def _print_AxisSum(self, expr: AxisSum) -> str:
        return self.summed(name(expr.axis), expr.summand)

    def _print_Symbol(self, expr: Symbol, style: str = "plain") -> str:
        return decimal(expr.name) or name(expr.name)


def mean_name(text: str) -> str:
    r"""The name of a mean.

    >>> print(mean_name("κ_relu"), mean_name("κ_relu′"), mean_name("φ2"))
    \kappa_{\mathrm{relu}} \kappa_{\mathrm{relu}'} \varphi_{2}
    """
    stem, _, below = text.partition("_")
    if not below:
        return name(text).replace(r"\phi", r"\varphi")
    inside = name(below.rstrip("′")) + "'" * below.count("′")
    return rf"{name(stem)}_{{{inside}}}"


def _of_side(text: str) -> str:
    """A name, with a prime where it is that of the second input."""
    shown = name(text.removesuffix("′"))
    if not text.endswith("′"):
        return shown
    return f"{shown}'" if re.fullmatch(r"\\?\w+", shown) else f"{{{shown}}}'"


def formulas(outline: Outline) -> list[Formula]:
    """Tables in order, the two kernels, named means, logits and anonymous names."""
    printer = Printer(outline)
    rows: list[Formula] = []
    for item in outline.items:
        if isinstance(item, Layers):
            starts = "".join(rf",\quad {title_latex(a)} = {title_latex(b)}" for a, b in item.before)
            rows.append(Formula(r"\ell", "=", (rf"{item.first}, \ldots, {item.last}{starts}:",)))
            rows += [printer.equation(e) for e in item.equations]
        else:
            rows.append(printer.equation(item))
    for named in outline.named_means:
        rows += printer.mean(named)
    for f, x, body in outline.functions:
        rows.append(Formula(FormulaPrinter().doprint(Function(f)(x)), "=", FormulaPrinter().addends(body)))
    if outline.has_softmax:
        total = r"\frac{e^{L_{b}}}{\sum_{i \in \mathrm{key}} e^{L_{i}}}"
        rows.append(Formula(r"\operatorname{softmax}_{b \in \mathrm{key}}\left(L_{b}\right)", "=", (total,)))
    for logit in outline.logits:
        left = printer.at(rf"\mathrm{{Cov}}\,|{label(logit.name)}\rangle ", (1, 2), logit.indices)
        rows.append(Formula(left, "=", printer.addends(logit.covariance)))
    network, body = outline.derivation.network, _Body(outline)
    rows += (Formula(name(network[p].name), "=", (body.instruction(p),)) for p in outline.legend())
    if any(e.indices for e in outline.equations()):
        rows += (Formula(f"{name(c)}, {name(c)}'", r"\in", (name(axis),)) for axis, c in outline.letters.items())
    return [*rows, *constants(network, rows)]
