r"""The operator regime in LaTeX."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tplimits.program.nodes.kinds import Avg, Initial, MatMul, Nonlin
from tplimits.regimes.training.report.notation import LATEX, NamedLatex, Notation, latex_label
from tplimits.regimes.training.report.tangent_terms import Shown, TangentTerm, by_optimizer
from tplimits.regimes.training.report.update_functions import entry_by_entry, factored_latex, is_factored, latex_signs
from tplimits.report.latex_formulas import Formula, FormulaPrinter
from tplimits.report.latex_names import name as latex_name

if TYPE_CHECKING:
    from tplimits.regimes.training.derivation.operator import TangentOperator

_WRITE = Notation(LATEX)


def formulas(operator: TangentOperator) -> list[Formula]:
    """The evolution of the outputs, the operator, norms that divide, update functions."""
    shown = Shown(operator)
    printer = NamedLatex()
    if shown.is_decaying:
        power = r"(1-\lambda)^{t-s}\," if operator.decay is not None else ""
        right = rf"f^{{\mathrm{{dec}}}}_{{t+1}} - \eta\sum_{{s\le t}}{power}\mathcal K_{{s,t+1}}(\chi_0,\dots,\chi_s)"
        rows = [Formula("f_{t+1}", "=", (right + rf",\quad {_latex_decays(operator)}",))]
        rows.append(Formula(r"\mathcal K_{s,t+1}^a", "=", tuple(_latex_terms(shown, "Q_s"))))
    else:
        rows = [
            Formula("f_{t+1}", "=", (r"f_t - \eta\,\mathcal K(\chi_0,\dots,\chi_t),\quad \chi_t = \varepsilon_t(f_t)",))
        ]
        rows.append(Formula(r"\mathcal K^a", "=", tuple(_latex_terms(shown, "Q_t"))))
    rows += list(_latex_norms(shown, shown.step))
    for optimizer, names in by_optimizer(operator).items():
        whose = "" if operator.optimizer else f"^{{{','.join(map(latex_name, names))}}}"
        if is_factored(optimizer):
            rows += list(factored_latex())
            continue
        states, output = entry_by_entry(optimizer).formula
        rows.append(Formula(f"Q_t{whose}", "=", (printer.doprint(output),)))
        rows += [Formula(latex_name(s.name), r"\gets", (printer.doprint(s.update),)) for s in states]
    return [*rows, *latex_signs(), *_latex_kets(shown)]


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
            inside = _WRITE.body(total, s.operand, given).removeprefix("|").removesuffix(r"\rangle")
            matrix = latex_label(total[s.matrix].name) + (r"^{\top}" if s.transposed else "")
            right = rf"|{matrix}\,{inside}\rangle"
        elif isinstance(s, Avg):
            right = rf"\langle 1{_WRITE.body(total, s.operand, given)}"
        else:
            assert isinstance(s, Nonlin)
            right = _WRITE.body(total, s.body, given)
        yield Formula(left, "=", (right,))


def _latex_terms(shown: Shown, update: str) -> Iterator[str]:
    first = True
    for parameter, terms in shown.terms.items():
        matrix = any(t.right is not None for t in terms)
        gradient, divided = _latex_gradient(terms), _latex_divided(shown, parameter, update)
        for term in terms:
            ratio = shown.weight(parameter)
            weight = "" if ratio == 1 else FormulaPrinter().doprint(ratio) + r"\,"
            bra = (
                _latex_power(shown, parameter)
                + weight
                + _latex_sum(shown.summed(term))
                + _latex_sum(term.sums)
                + _latex_delta(shown.apart(term))
                + rf"\langle {_latex(term.left)}|^a\,"
            )
            clipped = _latex_clipped(shown, parameter)
            inside = rf"\big({gradient}\big){clipped}" if clipped else gradient
            ket = rf"{divided}\,|{_latex(term.right or '')}\rangle^a" if matrix else rf"{divided}\rangle"
            bra = bra if matrix else bra.removesuffix(r"\,")
            yield ("" if first else "+ ") + rf"{bra}{update}\Big({inside}\Big){ket}"
            first = False
    for bias in shown.operator.biases:
        slope = rf"\partial_{{{latex_name(bias)}}}f"
        divided, clipped = _latex_divided(shown, bias, update), _latex_clipped(shown, bias)
        line = rf"{_latex_power(shown, bias)}{slope}\,{update}\Big({slope}\sum_b\chi^b{clipped}\Big){divided}"
        yield line if first else f"+ {line}"
        first = False


def _latex_clipped(shown: Shown, parameter: str) -> str:
    """What a gradient is divided by before the update function sees it."""
    return rf"\big/\nu_{shown.step}" if shown.clipped(parameter) else ""


def _latex_decays(operator: TangentOperator) -> str:
    if operator.decay is not None:
        return rf"\lambda = {operator.decay:g}"
    return r",\ ".join(rf"\lambda_{{{latex_name(name)}}} = {λ:g}" for name, λ in operator.weight_decay.items())


def _latex_left(operator: TangentOperator, name: str) -> str:
    """(1 − λ) of a parameter that decays."""
    if not operator.weight_decay[name]:
        return ""
    return r"(1-\lambda)" if operator.decay is not None else rf"(1-\lambda_{{{latex_name(name)}}})"


def _latex_power(shown: Shown, name: str) -> str:
    """What is left of an update after t − s steps, where parameters have decays of their own."""
    left = _latex_left(shown.operator, name) if shown.operator.decay is None else ""
    return rf"{left}^{{t-s}}\," if left else ""


def _latex_gradient(terms: tuple[TangentTerm, ...]) -> str:
    signals = [_latex_signal(t) for t in terms]
    inside = [
        _latex_sum(t.sums)
        + _latex_delta(t.fixed)
        + rf"|{_latex(t.left)}\rangle^b"
        + (rf"\langle {_latex(t.right)}|^b" if t.right else "")
        for t in terms
    ]
    if len(terms) == 1:
        return rf"\sum_b{signals[0]}{inside[0]}"
    if len(set(signals)) == 1:
        return rf"\sum_b{signals[0]}\Big({' + '.join(inside)}\Big)"
    weighed = " + ".join(χ + one for χ, one in zip(signals, inside, strict=True))
    return rf"\sum_b\Big({weighed}\Big)"


def _latex_signal(term: TangentTerm) -> str:
    at = ",".join(latex_name(a) if a == o else f"{latex_name(o)}={latex_name(a)}" for a, o in term.at)
    return rf"\chi^{{b,{at}}}" if at else r"\chi^b"


def _latex_delta(fixed: tuple[tuple[str, str], ...]) -> str:
    return "".join(rf"\delta_{{{latex_name(axis)}={_latex(index)}}}\," for axis, index in fixed)


def _latex_divided(shown: Shown, parameter: str, update: str) -> str:
    """The divisor at the time of the update Q_t or Q_s."""
    time = update.removeprefix("Q_")
    return "" if shown.norm(parameter) is None else rf"\big/\nu^{{{latex_name(parameter)}}}_{time}"


def _latex_norms(shown: Shown, time: str) -> Iterator[Formula]:
    operator = shown.operator
    for name in (*operator.trained, *operator.biases):
        norm = shown.norm(name)
        if norm is None:
            continue
        own, left = latex_name(name), _latex_left(operator, name)
        kept = f"{left}^{time}" if left else ""
        if norm.of == "update":
            inside = rf"Q_{time}\big({_latex_whole(shown, name)}\big)"
        elif norm.is_of_start:
            inside = kept
        else:
            inside = f"{{{own}}}_{time}" if name in operator.biases else rf"{kept} {own}".strip()
        yield Formula(rf"\nu^{{{own}}}_{time}", "=", (_WRITE.norm(inside, norm),))
    for whole in shown.whole_norms:
        gradients = {name: _latex_whole(shown, name) for name in whole.parts}
        yield Formula(rf"\nu_{time}", "=", (_WRITE.whole_norm(gradients, whole),))


def _latex_whole(shown: Shown, name: str) -> str:
    """The gradient of a parameter, of an output bias too."""
    if name in shown.operator.biases:
        return rf"\partial_{{{latex_name(name)}}}f\sum_b\chi^b"
    return _latex_gradient(shown.terms[name])


def _latex(text: str) -> str:
    return latex_name(text.replace(", ", ",")) if text else ""


def _latex_sum(axes: tuple[str, ...]) -> str:
    return rf"\sum_{{{','.join(latex_name(a) for a in axes)}}}" if axes else ""
