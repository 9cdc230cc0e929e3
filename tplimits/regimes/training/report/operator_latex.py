r"""The operator regime in LaTeX."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tplimits.program.nodes.kinds import Avg, Initial, MatMul, Nonlin
from tplimits.regimes.training.report.notation import NamedLatex, latex_label
from tplimits.regimes.training.report.tangent_terms import IN_LATEX, Shown, by_optimizer, in_latex
from tplimits.regimes.training.report.update_functions import factored_latex, is_factored, latex_signs, recursion
from tplimits.report.latex_formulas import Formula, FormulaPrinter, constants
from tplimits.report.latex_names import name as latex_name

if TYPE_CHECKING:
    from tplimits.regimes.training.derivation.operator import TangentOperator


def formulas(operator: TangentOperator) -> list[Formula]:
    """The evolution of the outputs, the operator, norms that divide, update functions."""
    shown = Shown(operator, IN_LATEX)
    own = shown.own
    printer = NamedLatex()
    if shown.is_decaying:
        power = r"(1-\lambda)^{t-s}\," if operator.decay is not None else ""
        right = rf"f^{{\mathrm{{dec}}}}_{{t+1}} - \eta\sum_{{s\le t}}{power}\mathcal K_{{s,t+1}}(\chi_0,\dots,\chi_s)"
        right = own(right) + rf",\quad {shown.decays}"
        left = own(r"\mathcal K_{s,t+1}^a")
    else:
        right = own(r"f_t - \eta\,\mathcal K(\chi_0,\dots,\chi_t),\quad \chi_t = \varepsilon_t(f_t)")
        left = own(r"\mathcal K^a")
    rows = [Formula(own("f_{t+1}"), "=", (right,)), Formula(left, "=", tuple(_latex_terms(shown)))]
    rows += [Formula(left, "=", (right,)) for _, left, right in shown.norms("s" if shown.is_decaying else "t")]
    for optimizer, names in by_optimizer(operator).items():
        whose = "" if operator.optimizer else f"^{{{','.join(map(latex_name, names))}}}"
        if is_factored(optimizer):
            rows += list(factored_latex(shown.letters))
            continue
        states, output = recursion(optimizer, shown.letters)
        rows.append(Formula(f"{own('Q_t')}{whose}", "=", (printer.doprint(output),)))
        rows += [Formula(latex_name(name), r"\gets", (printer.doprint(update),)) for name, update in states]
    rows += [*latex_signs(shown.letters), *_latex_kets(shown)]
    return [*rows, *constants(shown.total, rows)]


def _latex_kets(shown: Shown) -> Iterator[Formula]:
    """What the kets of the operator are, given the data; images are Gaussian up to their dot parts."""
    total, given = shown.total, frozenset(range(len(shown.total)))
    for s in total:
        if isinstance(s, Initial):
            continue
        left = latex_label(s.name)
        left = rf"{{{left}}}_{{{','.join(map(latex_name, s.axes))}}}" if s.axes else left
        left = rf"|{left}\rangle" if s.width is not None else left
        if isinstance(s, MatMul):
            inside = in_latex(total, s.operand)
            matrix = latex_label(total[s.matrix].name) + (r"^{\top}" if s.transposed else "")
            right = rf"|{matrix}\,{inside}\rangle"
        elif isinstance(s, Avg):
            right = rf"\langle 1{shown.notation.body(total, s.operand, given)}"
        else:
            assert isinstance(s, Nonlin)
            right = shown.notation.body(total, s.body, given)
        yield Formula(left, "=", (right,))


def _latex_terms(shown: Shown) -> Iterator[str]:
    update, sign = f"{shown.own('Q')}_{shown.step}", ""
    input_a = shown.own("^a")
    for parameter, terms in shown.terms.items():
        matrix = any(t.right is not None for t in terms)
        gradient, divided, clipped = shown.gradient(parameter), shown.divided(parameter), shown.clipped(parameter)
        ratio = shown.weight(parameter)
        weight = "" if ratio == 1 else FormulaPrinter().doprint(ratio) + r"\,"
        inside = rf"\big({gradient}\big){clipped}" if clipped else gradient
        for term in terms:
            bra = shown.left_of_update(parameter) + weight + shown.members(term)
            bra += rf"\langle {term.left}|{input_a}" + (r"\," if matrix else "")
            ket = rf"{divided}\,|{term.right}\rangle{input_a}" if matrix else rf"{divided}\rangle"
            yield rf"{sign}{bra}{update}\Big({inside}\Big){ket}"
            sign = "+ "
    for bias in shown.operator.biases:
        slope = shown.put("slope", latex_name(bias))
        inside = rf"{shown.put('gradient of a bias', latex_name(bias))}{shown.clipped(bias)}"
        yield rf"{sign}{shown.left_of_update(bias)}{slope}\,{update}\Big({inside}\Big){shown.divided(bias)}"
        sign = "+ "
