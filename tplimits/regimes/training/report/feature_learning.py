r"""The feature-learning limit as text, as LaTeX and as steps."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tplimits.law.kets import Step
from tplimits.program.language.render import constants_text
from tplimits.regimes.training.report.notation import LATEX, TEXT, NamedLatex, Notation, latex_label
from tplimits.regimes.training.report.outline import Outline
from tplimits.regimes.training.report.ratios import text_factor
from tplimits.regimes.training.report.update_functions import (
    SIDES,
    factored_latex,
    factored_text,
    is_factored,
    latex_signs,
)
from tplimits.regimes.training.report.update_functions import recursion as update_recursion
from tplimits.report.latex_boxes import boxes_of, width_of
from tplimits.report.latex_formulas import Formula, constants
from tplimits.report.latex_lines import LINE
from tplimits.report.letters import Letters, with_scalars
from tplimits.report.rolled import SCREEN, table, together
from tplimits.report.text import formula

if TYPE_CHECKING:
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.regimes.training.derivation.feature_learning import MaximalRecursion

#: TeX breaks no line under a bar: updates whose X is longer than this get a name for it
_BAR = r"\overline{"
_MOST = 0.6 * LINE


def named_bars(right: str, count: int, letters: Letters) -> tuple[str, list[Formula]]:
    r"""The formula with names for what stands under long bars, and these; `count` of them are there already.

    >>> shown, (row,) = named_bars(r"b - \overline{" + " + ".join(["x_t"] * 30) + "}", 0, Letters())
    >>> print(shown, row.left)
    b - \overline{G^{(1)}_{t}} G^{(1)}_{t}
    """
    found: list[Formula] = []
    past, G = letters.latex("_{s}"), letters.latex("G")
    at = right.find(_BAR)
    while at >= 0:
        start = at + len(_BAR)
        inside = right[start : _end(right, start)]
        if width_of(boxes_of(inside)) > _MOST:
            time = past if past in inside else letters.latex("_{t}")
            name = rf"{G}^{{({count + len(found) + 1})}}{time}"
            found.append(Formula(name, "=", (inside,)))
            right = right[:start] + name + right[start + len(inside) :]
        at = right.find(_BAR, start)
    return right, found


def letters_of(recursion: MaximalRecursion) -> Letters:
    """The letters of its formulas, none of them one of the network's names."""
    return Letters(with_scalars(recursion.network))


def _end(text: str, start: int) -> int:
    """Where the brace that was opened before `start` is closed."""
    depth, at = 1, start
    while depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 2 if text[at] == "\\" else 1
    return at - 1


_SECTIONS = {
    "forward": "forward, for every input",
    "backward": "backward",
    "update": "update",
    "divisor": "norms that divide",
    "unrolled": "images, with W_0 unrolled",
}
_LEGEND = (
    "|dh⟩_χ⟨x| and χ·|dv⟩ are sums over inputs and outputs; |W_0 x⟩ has a Gaussian part with covariance ⟨x|x′⟩ and the",
    "part Σ_y |y⟩ E ∂|x⟩/∂|W_0ᵀy⟩; Q_s(Σ_i |a_i⟩⟨b_i|) |z⟩ = E□ Q_s(Σ_i |a_i⟩|b_i⟩□) |z⟩□. Q_t sees steps 0, …, t.",
)


def text(recursion: MaximalRecursion, full: bool = False) -> str:
    """Forward, backward, update and unrolled images, then what Q_t is.

    What is longer than a screen has repeated layers once and short lines together, unless `full`.
    """
    letters = letters_of(recursion)
    outline = Outline(recursion, Notation(TEXT, letters), sums_rolled=not full)
    equations = list(outline.equations())
    width = max(len(e.left) for e in equations)
    legend: tuple[str, ...] = (*_LEGEND, SIDES) if any(e.section == "divisor" for e in equations) else _LEGEND
    ratios = [
        f"both parts of |{n}_0ᵀ y⟩ are {text_factor(r)}times these" for n, r in outline.larger_transposes().items()
    ]
    legend = (
        *map(letters.text, legend),
        *ratios,
        *_optimizers(recursion, letters),
        *(f"lost: {line}" for line in recursion.lost),
    )
    legend = (*legend, *(f"taken on by the user, not established: {name}" for name in recursion.assumed))
    rows = {
        title: [(e.left, f"= {e.right}") for e in equations if e.section == section]
        for section, title in _SECTIONS.items()
    }
    shown = {title: list(table(of, width, full)) for title, of in rows.items() if of}
    if not full and sum(len(lines) + 1 for lines in shown.values()) + len(legend) + 2 > SCREEN:
        shown = {title: together(list(table(of, 0))) for title, of in rows.items() if of}
    lines = [line for title, of in shown.items() for line in (f" {title}", *of)]
    legend = (*legend, *constants_text(outline.program, "\n".join(e.right for e in equations)))
    return "\n".join(
        [f"feature-learning limit of {recursion.network.name}", *lines, " where", *(f"  {line}" for line in legend)]
    )


def _optimizers(recursion: MaximalRecursion, letters: Letters) -> list[str]:
    """What every update function is, each once."""
    of: dict[str, list[str]] = {}
    for name, optimizer in recursion.optimizers.items():
        of.setdefault(_recursion_text(optimizer, letters), []).append(name)
    if len(of) == 1:
        return list(of)
    return [f"{', '.join(names)}: {line}" for line, names in of.items()]


def _recursion_text(optimizer: Optimizer, letters: Letters) -> str:
    who = letters.text(str(optimizer))
    if is_factored(optimizer):
        return f"{who}: {'; '.join(factored_text(letters))}"
    states, output = update_recursion(optimizer, letters)
    updates = "".join(f"{name} ← {formula(update)}, " for name, update in states)
    return f"{who}: {updates}{letters.text('Q_t')} = {formula(output)}"


def steps(recursion: MaximalRecursion) -> tuple[Step, ...]:
    """Every equation as a step."""
    return tuple(
        Step(e.section, e.premises, functools.partial("{} = {}".format, e.left, e.right), e.reference)
        for e in Outline(recursion, Notation(TEXT, letters_of(recursion))).equations()
    )


def formulas(recursion: MaximalRecursion) -> list[Formula]:
    """The recursion row by row, then what its signs mean."""
    letters = letters_of(recursion)
    outline = Outline(recursion, Notation(LATEX, letters))
    rate = f" - {outline.write.rate} "
    rows, bars = [], 0
    for e in outline.equations():
        right = e.right.replace("−", "-").replace("·", r"\cdot ")
        right, inside = named_bars(right, bars, letters)
        bars += len(inside)
        first, *rest = right.split(rate)
        rows.append(Formula(e.left, "=", (first, *(f"{rate.lstrip()}{part}" for part in rest))))
        rows += inside
    for name, ratio in outline.larger_transposes().items():
        matrix = rf"{outline.write.timed(name, '0')}^{{\top}}"
        covariance = rf"{outline.write.number(ratio)}\,\langle y|y'\rangle"
        rows.append(
            Formula(rf"\operatorname{{Cov}}\big(\hat{{{matrix} y}}, \hat{{{matrix} y'}}\big)", "=", (covariance,))
        )
    return [*rows, *_latex_optimizers(recursion, letters), *constants(outline.program, rows)]


def _latex_optimizers(recursion: MaximalRecursion, letters: Letters) -> list[Formula]:
    """The bar, and the update functions."""
    printer, own = NamedLatex(), letters.latex
    bar = Formula(own(r"\overline{X_t}"), "=", (own("Q_t(X_0, \\ldots, X_t)"),))
    action = (
        r"\operatorname{E}_{\boxed{1}} Q_t\Big(\sum_i |a_i\rangle |b_i\rangle^{\boxed{1}}\Big) |z\rangle^{\boxed{1}}"
    )
    rows = [bar, Formula(own(r"\overline{\textstyle\sum_i |a_i\rangle\langle b_i|}\, |z\rangle"), "=", (own(action),))]
    distinct: Sequence[Optimizer] = list(dict.fromkeys(recursion.optimizers.values()))
    for optimizer in distinct:
        who = ", ".join(rf"\mathrm{{{n}}}" for n, o in recursion.optimizers.items() if o == optimizer)
        tag = rf"\quad ({who})" if len(distinct) > 1 else ""
        if is_factored(optimizer):
            rows += list(factored_latex(letters))
            continue
        states, output = update_recursion(optimizer, letters)
        rows += [Formula(latex_label(name), r"\leftarrow", printer.addends(update)) for name, update in states]
        rows.append(Formula(own("Q_t"), "=", (printer.doprint(output) + tag,)))
    return [*rows, *latex_signs(letters)]
