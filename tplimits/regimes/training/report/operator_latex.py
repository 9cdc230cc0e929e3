r"""The operator regime in LaTeX."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tplimits.program.nodes.kinds import Avg, Initial, MatMul, Nonlin
from tplimits.regimes.training.report.notation import LATEX, NamedLatex, Notation, latex_label
from tplimits.regimes.training.report.tangent_terms import IN_LATEX, Shown, by_optimizer, in_latex
from tplimits.regimes.training.report.update_functions import entry_by_entry, factored_latex, is_factored, latex_signs
from tplimits.report.latex_formulas import Formula, FormulaPrinter, constants
from tplimits.report.latex_names import name as latex_name

if TYPE_CHECKING:
    from tplimits.regimes.training.derivation.operator import TangentOperator

_WRITE = Notation(LATEX)


def formulas(operator: TangentOperator) -> list[Formula]:
    """The evolution of the outputs, the operator, norms that divide, update functions."""
    shown = Shown(operator, IN_LATEX)
    printer = NamedLatex()
    if shown.is_decaying:
        power = r"(1-\lambda)^{t-s}\," if operator.decay is not None else ""
        right = rf"f^{{\mathrm{{dec}}}}_{{t+1}} - \eta\sum_{{s\le t}}{power}\mathcal K_{{s,t+1}}(\chi_0,\dots,\chi_s)"
        rows = [Formula("f_{t+1}", "=", (right + rf",\quad {shown.decays}",))]
        rows.append(Formula(r"\mathcal K_{s,t+1}^a", "=", tuple(_latex_terms(shown))))
    else:
        rows = [
            Formula("f_{t+1}", "=", (r"f_t - \eta\,\mathcal K(\chi_0,\dots,\chi_t),\quad \chi_t = \varepsilon_t(f_t)",))
        ]
        rows.append(Formula(r"\mathcal K^a", "=", tuple(_latex_terms(shown))))
    rows += [Formula(left, "=", (right,)) for _, left, right in shown.norms(shown.step)]
    for optimizer, names in by_optimizer(operator).items():
        whose = "" if operator.optimizer else f"^{{{','.join(map(latex_name, names))}}}"
        if is_factored(optimizer):
            rows += list(factored_latex())
            continue
        states, output = entry_by_entry(optimizer).formula
        rows.append(Formula(f"Q_t{whose}", "=", (printer.doprint(output),)))
        rows += [Formula(latex_name(s.name), r"\gets", (printer.doprint(s.update),)) for s in states]
    rows += [*latex_signs(), *_latex_kets(shown)]
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
            right = rf"\langle 1{_WRITE.body(total, s.operand, given)}"
        else:
            assert isinstance(s, Nonlin)
            right = _WRITE.body(total, s.body, given)
        yield Formula(left, "=", (right,))


def _latex_terms(shown: Shown) -> Iterator[str]:
    update, sign = f"Q_{shown.step}", ""
    for parameter, terms in shown.terms.items():
        matrix = any(t.right is not None for t in terms)
        gradient, divided, clipped = shown.gradient(parameter), shown.divided(parameter), shown.clipped(parameter)
        ratio = shown.weight(parameter)
        weight = "" if ratio == 1 else FormulaPrinter().doprint(ratio) + r"\,"
        inside = rf"\big({gradient}\big){clipped}" if clipped else gradient
        for term in terms:
            bra = shown.left_of_update(parameter) + weight + shown.members(term)
            bra += rf"\langle {term.left}|^a" + (r"\," if matrix else "")
            ket = rf"{divided}\,|{term.right}\rangle^a" if matrix else rf"{divided}\rangle"
            yield rf"{sign}{bra}{update}\Big({inside}\Big){ket}"
            sign = "+ "
    for bias in shown.operator.biases:
        slope = rf"\partial_{{{latex_name(bias)}}}f"
        inside = rf"{slope}\sum_b\chi^b{shown.clipped(bias)}"
        yield rf"{sign}{shown.left_of_update(bias)}{slope}\,{update}\Big({inside}\Big){shown.divided(bias)}"
        sign = "+ "
