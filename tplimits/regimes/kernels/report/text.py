"""A kernel limit as a table a person reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sympy import Expr
from sympy.printing.str import StrPrinter

from tplimits.program.language.render import constants_text, superscript
from tplimits.regimes.kernels.report.outline import Equation, Layers, Named, NamedMean, Outline
from tplimits.regimes.kernels.report.reach import reach
from tplimits.report.roles import width
from tplimits.report.rolled import SCREEN, rolled_lines
from tplimits.report.text import AsWritten, as_written

if TYPE_CHECKING:
    from tplimits.program.nodes.entries import ArrayEntry, AxisSum, Kron, Lookup
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.kernels.derivation.leaves import Data, Datum, DrawMean
    from tplimits.regimes.kernels.report.labels import Title
    from tplimits.regimes.kernels.report.softmaxes import Softmax

#: longer right-hand sides are broken between their terms
_LINE = 110
_BELOW = "    "
#: and definitions of anonymous names cut
_LEGEND = 160


def title(shown: Title) -> str:
    """K_x, Θ_{W x}, K_x⁽ℓ⁾."""
    simple = re.fullmatch(r"[^\W_][\w.#]*", shown.vectors)
    below = "" if not shown.vectors else shown.vectors if simple else f"{{{shown.vectors}}}"
    name = shown.kind + ("_" if below and shown.kind else "") + below
    layer = superscript(shown.layer)
    return f"{name}⁽{layer}⁾" if layer else name


def demand(outline: Outline, derivation: KernelTables) -> tuple[str, ...]:
    """A line a table with axes: at which of its places it is wanted between two inputs."""
    found, apart = [], reach(derivation)
    for table in derivation.needed:
        equal = derivation.demand.cross.get(table.number)
        if equal is None or not table.left:
            continue
        tied = {p for p, _ in equal}
        parts = [f"at equal {a}" if p in tied else f"at all {a}" for p, a in enumerate(table.left)]
        parts = [apart[table.number]] if not tied and table.number in apart else parts
        found.append(f"{title(outline.titles[table.number])} {', '.join(parts)}")
    return tuple(found)


class Printer(Named, AsWritten, StrPrinter):
    """Entries of tables, of data and of logits in the names of the program."""

    def __init__(self, outline: Outline) -> None:
        super().__init__()
        self._outline, self.title, self.ket = outline, title, str
        self._inputs = {1: outline.input, 2: outline.input + "′"}
        self.pair = f"{outline.input},{outline.input}′"

    def at(self, name: str, sides: tuple[int, ...], indices: tuple[Expr, ...]) -> str:
        inside = f"[{','.join(map(self._print, indices))}]" if indices else ""
        return f"{name}({','.join(self._inputs[s] for s in sides)}){inside}"

    def _print_Data(self, expr: Data | Datum) -> str:
        name = self._outline.derivation.network[expr.source].name + ("′" if expr.side == 2 else "")
        return f"{name}[{','.join(map(self._print, expr.indices))}]" if expr.indices else name

    def _print_Kron(self, expr: Kron) -> str:
        return f"δ[{','.join(map(self._print, expr.args))}]"

    def _print_AxisSum(self, expr: AxisSum) -> str:
        inside = self._print(expr.summand)
        return f"Σ_{{{self._print(expr.bound)}∈{expr.axis}}}({inside})"

    def _print_Softmax(self, expr: Softmax) -> str:
        return f"softmax_{{{self._print(expr.index)}∈{expr.axis}}}({self._print(expr.family)})"

    def _print_DrawMean(self, expr: DrawMean) -> str:
        return f"E[{self._print(expr.product)}]"

    def _print_ArrayEntry(self, expr: ArrayEntry) -> str:
        return f"array{expr.array}[{','.join(map(self._print, expr.indices))}]"

    def _print_Lookup(self, expr: Lookup) -> str:
        return f"table{expr.table}[{','.join(map(self._print, expr.indices))}]"

    def left(self, equation: Equation) -> str:
        """The left-hand side of an equation."""
        return self.at(title(equation.title), (1, 2)[: equation.inputs], equation.indices)

    def equation(self, equation: Equation) -> Iterator[str]:
        """Lines of an equation."""
        lines = [f"{self.left(equation)} ="]
        for term in self.addends(equation.right):
            if width(lines[-1]) + width(term) > _LINE and not lines[-1].endswith(" ="):
                lines.append(_BELOW)
            lines[-1] += f" {term}"
        yield from lines


def _mean(named: NamedMean) -> str:
    function = named.function
    variables = function.variables
    z = variables[0] if len(variables) == 1 else f"({', '.join(map(str, variables))})"
    rows = [[function.covariance(i, j) for j in range(len(variables))] for i in range(len(variables))]
    law = f"{rows[0][0]}" if len(rows) == 1 else "[" + "; ".join(" ".join(map(str, row)) for row in rows) + "]"
    arguments = ", ".join(map(str, function.arguments))
    integrand = StrPrinter().doprint(as_written(named.integrand))
    text = f"{named.name}({arguments}) = E[{integrand}], {z} ~ N(0, {law})"
    if named.closed is None:
        return text + ("; a closed form is known" if named.too_long else "")
    return f"{text}\n{_BELOW}= {StrPrinter().doprint(named.closed)}"


def kernel_limit(outline: Outline) -> str:
    """Tables in order, the two kernels, means by name, what anonymous names stand for."""
    printer = Printer(outline)
    network = outline.derivation.network
    rates = outline.derivation.rates
    trained = (
        ", ".join(f"{r}·{n}" if (r := rates.get(n, 1)) != 1 else n for n in outline.derivation.trained) or "nothing"
    )
    of = f"tangent kernel Θ of {_shortened(trained)}"
    lines = [f"kernels of {network.name}: NNGP K, {of}"]
    if outline.derivation.no_ntk:
        lines = [f"kernels of {network.name}: NNGP K, and no {of}: {outline.derivation.no_ntk}"]
    lines += [f"  assumed: {name}" for name in outline.derivation.recursion.judged.assumed]
    opening = len(lines)
    for item in outline.items:
        if isinstance(item, Layers):
            lines.append(f"  for ℓ = {item.first}, …, {item.last}:" + _starts(item))
            lines += [f"    {line}" for e in item.equations for line in printer.equation(e)]
        else:
            lines += [f"  {line}" for line in printer.equation(item)]
    where = [_mean(m).replace("\n", "\n    ") for m in outline.named_means]
    where += [f"{f}({x}) = {StrPrinter().doprint(as_written(body))}" for f, x, body in outline.functions]
    if outline.has_softmax:
        where.append("softmax_{b∈key}(L[b]) = exp(L[b])/Σ_{i∈key}(exp(L[i]))")
    for logit in outline.logits:
        covariance = printer.doprint(logit.covariance)
        lines_of = ",".join(map(str, logit.indices))
        where.append(f"E[…] over {logit.name} ~ N(0, C), C({printer.pair})[{lines_of}] = {covariance}")
    for position in outline.legend():
        text = outline.titles.labels.inlined(position)
        where.append(
            f"{outline.derivation.network[position].name} = {text if len(text) <= _LEGEND else text[:_LEGEND] + ' …'}"
        )
    if outline.letters and any(e.indices for e in outline.equations()):
        where.append("indices: " + ", ".join(f"{c} over {axis}" for axis, c in outline.letters.items()))
    where += constants_text(network, "\n".join([*lines, *where]))
    rows, where = lines[opening:], [f"  {w}" for w in where]
    if len(lines) + len(where) > SCREEN and not any(isinstance(item, Layers) for item in outline.items):
        rows, where = list(rolled_lines(rows)), list(rolled_lines(where))
    return "\n".join([*lines[:opening], *rows, *(["where"] if where else []), *where])


def _starts(layers: Layers) -> str:
    if not layers.before:
        return ""
    return " from " + ", ".join(f"{title(a)} = {title(b)}" for a, b in layers.before)


def _shortened(names: str) -> str:
    return names if len(names) <= 100 else f"all {names.count(',') + 1} parameters"
