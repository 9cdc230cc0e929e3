r"""LaTeX in the bra-ket notation of Tensor Programs: |x\rangle, |Wx\hat\rangle, |Wx\dot\rangle.

The fragments need amsmath and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Symbol

from tplimits.law.gaussians import CopySource, HatSource, InitialSource
from tplimits.law.means import BoxMean, Expectation
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar, InitialVector
from tplimits.program.nodes.laws import GRID, Law
from tplimits.report.latex_formulas import Formula, FormulaPrinter, decimal
from tplimits.report.latex_names import name
from tplimits.report.text import Writer, shown

if TYPE_CHECKING:
    from tplimits.law.kets import DotTerm, Ket, Key
    from tplimits.law.state import Derivation
    from tplimits.program.nodes.program import Program


class Printer(FormulaPrinter):
    """SymPy's LaTeX with Gaussian variables as kets and means as brackets."""

    def __init__(self, state: Derivation) -> None:
        super().__init__()
        self._state = state
        self._boxes: dict[tuple[int, ...], int] = {}
        self._fluctuations = {f.symbol: f for f in state.fluctuations.values()}

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
            drawn = self._state.kets.get((source.position, source.index))
            return _standard(symbol.name) if drawn is not None and drawn.expr != symbol else _named_ket(symbol.name)
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


def _named_ket(label: str) -> str:
    return rf"|{name(label)}\rangle"


def _standard(label: str) -> str:
    """The standard normal variable that a vector with another law is a function of."""
    return rf"|\overline{{{name(label)}}}\rangle"


def _derivative(printer: Printer, term: DotTerm) -> str:
    return rf"\operatorname{{E}}\frac{{\partial {_named_ket(term.operand)}}}{{\partial {printer.doprint(term.hat)}}}"


def _factor(printer: Printer, term: DotTerm) -> str:
    return "" if term.factor == 1 else printer.doprint(term.factor) + r"\,"


def _image(printer: Printer, state: Derivation, written: Writer, ket: Ket) -> list[Formula]:
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


def _law(printer: Printer, law: Law) -> str:
    if law.shape == GRID:
        return r"\mathcal{U}\left[0, 1\right]\text{: places }(j + \tfrac{1}{2})/n\text{ of neurons}"
    if law.shape == "signs":
        centre = f"{printer.doprint(law.mean)} " if law.mean else ""
        return rf"{centre}\pm {printer.doprint(law.std)}\text{{ with probability }}\tfrac{{1}}{{2}}\text{{ each}}"
    if law.shape == "uniform":
        return r"\mathcal{U}\left[" + ", ".join(map(printer.doprint, law.ends)) + r"\right]"
    bound = law.bound
    std, within = (law.std, "") if bound is None else (bound[0], rf"\text{{ within }}\pm {printer.doprint(bound[1])}")
    return rf"\mathcal{{N}}\left({printer.doprint(law.mean)}, {printer.doprint(std**2)}\right){within}"


def _initial(printer: Printer, law: Law, ket: Ket) -> list[Formula]:
    """The law of an initial vector, and what it is a function of where that is not the vector itself."""
    left = _named_ket(ket.label)
    if law.std == 0:
        return [Formula(left, "=", printer.addends(ket.expr))]
    if ket.expr.is_Symbol:
        return [Formula(left, r"\sim", (_law(printer, law),))]
    normal = Formula(_standard(ket.label), r"\sim", (r"\mathcal{N}\left(0, 1\right)",))
    return [normal, Formula(left, "=", (*printer.addends(ket.expr), rf"\sim {_law(printer, law)}"))]


def _rows(program: Program, state: Derivation, printer: Printer, written: Writer, key: Key) -> list[Formula]:
    """What there is to say about one entry of one instruction."""
    instruction, label = program[key[0]], state.label(key)
    if isinstance(instruction, (InitialMatrix, InitialScalar)):
        return []
    if key in state.scalars:
        return [Formula(name(label), r"\to", printer.addends(shown(written(state.scalars[key]))))]
    if isinstance(instruction, InitialVector):
        return _initial(printer, instruction.law, state.kets[key])
    if state.kets[key].hat is not None:
        return _image(printer, state, written, state.kets[key])
    return [Formula(_named_ket(label), "=", printer.addends(written(state.kets[key].expr)))]


def formulas(program: Program, state: Derivation) -> list[Formula]:
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


def expression(state: Derivation, expr: Expr) -> str:
    """One expression of a limit, such as a bracket, as math."""
    return Printer(state).doprint(expr)
