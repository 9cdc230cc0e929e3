"""The derivation of kernels step by step, and what it rests on."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import networkx
from sympy import Expr

from tplimits.law.hypotheses import universality
from tplimits.law.kets import Reference, Step
from tplimits.law.rules import average
from tplimits.law.rules.matmul import DOT, HAT
from tplimits.law.state import ASSUMED
from tplimits.program.network.parameters import parameters, scalars_unlike_normal
from tplimits.program.nodes.kinds import InitialScalar, MatMul
from tplimits.regimes.kernels.derivation.leaves import Of, TableEntry
from tplimits.regimes.kernels.report.outline import Equation, Layers, Outline
from tplimits.regimes.kernels.report.text import Printer, title

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

TANGENT = Reference("Jacot, Gabriel & Hongler 2018, Sec. 4", "jacot2018neural")
HEADS = Reference("Hron et al. 2020, Thm 3", "hron2020infinite")


def steps(outline: Outline) -> tuple[Step, ...]:
    """The tangent, dot parts, tables (repeated layers once), the two kernels."""
    return tuple(_steps(outline))


def _steps(outline: Outline) -> Iterator[Step]:
    derivation, printer = outline.derivation, Printer(outline)
    trained = ", ".join(derivation.trained) or "nothing"
    one = outline.input
    sentence = (
        f"Θ({printer.pair}) = Σ_θ ∂f/∂θ({one}) ∂f/∂θ({one}′) = E[δf({one}) δf({one}′)] for "
        f"the derivative δf along a random direction δθ of {trained}: the covariance of the tangent program"
    )
    if not derivation.no_ntk:
        yield Step("tangent kernel", (), lambda: sentence, TANGENT)
    for position, instruction in enumerate(derivation.network):
        body = derivation.recursion.nodes[position].body
        if isinstance(instruction, MatMul) and body is not None:
            yield Step("dot part", (), functools.partial(_dot, outline, printer, position, body), DOT)
    for item in outline.items:
        if isinstance(item, Layers):
            suffix = f" for ℓ = {item.first}, …, {item.last}"
            for equation in item.equations:
                yield _table(outline, printer, equation, suffix)
        else:
            yield _table(outline, printer, item, "")
    for name in derivation.recursion.judged.assumed:
        yield Step("assumption", (), lambda name=name: name, ASSUMED)  # type: ignore[misc]


def _dot(outline: Outline, printer: Printer, position: int, body: Expr) -> str:
    nodes, labels = outline.derivation.recursion.nodes, outline.titles.labels
    shown = printer.doprint(outline.displayed(body))
    hats = [leaf.node for leaf in body.atoms(Of) if nodes[leaf.node].view is not None and nodes[leaf.node].body is None]
    gaussian = ", ".join(sorted({labels.of_node(h) for h in hats}))
    return f"{labels.of_position(position)} = {shown}, of which {gaussian} is the Gaussian part"


def _table(outline: Outline, printer: Printer, equation: Equation, suffix: str) -> Step:
    rule, reference = _rule(outline, equation)
    used = sorted(equation.right.atoms(TableEntry), key=lambda e: e.table)
    premises = tuple(dict.fromkeys(title(outline.titles[e.table]) for e in used))

    def write() -> str:
        return "\n      ".join(line.strip() for line in printer.equation(equation)) + suffix

    return Step(rule, premises, write, reference, functools.partial(_remarks, outline, equation))


def _rule(outline: Outline, equation: Equation) -> tuple[str, Reference]:
    derivation = outline.derivation
    if not equation.nodes:
        return (
            ("covariance of the output", average.REFERENCE)
            if equation.title.kind == "K"
            else ("covariance of the tangent", TANGENT)
        )
    if equation.title.kind in ("E", ""):
        return "mean", average.REFERENCE
    nodes = [derivation.recursion.nodes[i] for i in equation.nodes]
    if any(set(n.axes) & set(derivation.infinite) for n in nodes):
        return "bracket, infinitely many members", HEADS
    origins = [outline.titles.labels.origin(i) for i in equation.nodes]
    images = all(p is not None and isinstance(derivation.network[p], MatMul) for p in origins)
    if equation.title.kind == "Θ":
        return ("images under W and δW", HAT) if images else ("product rule", average.REFERENCE)
    return ("images of one matrix", HAT) if images else ("bracket", average.REFERENCE)


def _remarks(outline: Outline, equation: Equation) -> tuple[str, ...]:
    names = {type(f).__name__ for f in equation.right.atoms(Expr) if type(f).__name__ in outline.means.values()}
    found = []
    for named in outline.named_means:
        if named.name in names:
            rows = ", ".join(named.rows)
            found.append(f"{named.name} in closed form ({rows})" if rows else f"{named.name} by quadrature")
    return tuple(found)


def assumptions(outline: Outline) -> tuple[str, ...]:
    """What the two kernels rest on."""
    assumed = outline.derivation.recursion.judged.assumed
    derivation = outline.derivation
    network = derivation.network
    found = ["all widths go to infinity together" + _ratios(outline)]
    held = _held(network)
    rest = [p for p in parameters(network) if p not in derivation.trained and p not in held]
    trained = f"Θ is that of training {', '.join(derivation.trained)}" + (
        "" if not derivation.rates else " at the rates " + ", ".join(map(str, derivation.rates.values()))
    )
    if not derivation.trained:
        trained = "nothing is trained: Θ = 0"
    if derivation.no_ntk:
        trained = f"there is no Θ of training {', '.join(derivation.trained)}: {derivation.no_ntk}"
    found.append(trained + (f"; {', '.join(rest)} stay as drawn" if rest and derivation.trained else ""))
    if held:
        found.append(f"{', '.join(held)}: scalars inside the network, held at their values and not trained")
    if derivation.mean != 0:
        found.append(f"the output has the mean {derivation.mean}; K is its covariance")
    found.append(_transposes(outline))
    if derivation.infinite:
        axes = ", ".join(derivation.infinite)
        found.append(f"infinitely many independent members along {axes}, after the widths have gone to infinity")
    if outline.logits:
        names = ", ".join(x.name for x in outline.logits)
        found.append(
            f"the logits {names} are random and Gaussian, linear in matrices that stand nowhere else; "
            "means over them are drawn"
        )
    if derivation.alike:
        found.append(f"outputs along {', '.join(derivation.alike)} are independent and have the same kernels")
    found += universality.stated(network)
    if others := scalars_unlike_normal(network):
        found.append(f"{', '.join(others)} are not normal: K is the covariance of f_0, which is no Gaussian process")
    found += [f"taken on by the user, not established: {name}" for name in assumed]
    return tuple(found)


def _held(network: Program) -> list[str]:
    """Scalar parameters that stand elsewhere than added to the output: the kernels are conditional on them."""
    readout = networkx.ancestors(network.graph, network.returns[0])
    return [network[p].name for p in sorted(readout - set(network.inputs)) if isinstance(network[p], InitialScalar)]


def _ratios(outline: Outline) -> str:
    widths = outline.derivation.network.other_widths
    return f", {', '.join(widths)} in proportion to n" if widths else ""


def _transposes(outline: Outline) -> str:
    network, nodes = outline.derivation.network, outline.derivation.recursion.nodes
    ways: dict[int, set[bool]] = {}
    for s in network:
        if isinstance(s, MatMul):
            ways.setdefault(s.matrix, set()).add(s.transposed)
    both = [network[m].name for m, found in ways.items() if len(found) == 2]
    if not both:
        return (
            "no matrix stands with its transpose: gradients behave as with independent backward weights "
            "(Simple GIA, the gradient independence assumption, holds)"
        )
    images = [p for p, s in enumerate(network) if isinstance(s, MatMul) and nodes[p].body is not None]
    matrices = ", ".join(both)
    if not images:
        return f"{matrices} and the transpose stand in one network, and all dot parts vanish"
    names = ", ".join(outline.titles.labels.of_position(p) for p in images)
    return (
        f"{matrices} stands with its transpose: {names} has a dot part, which the kernels keep; the assumption of "
        "independent backward weights (GIA) fails here"
    )
