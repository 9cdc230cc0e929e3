"""Functions of several dense layers at one neuron, as U f(W₁ x, W₂ x)/√n: weights whose scalars are entries of layers.

Given V the entries of W₁ x, W₂ x, … at one neuron are Gaussian, of covariance V for each matrix, and neurons are
independent, so that (1/n) Σ_i f_i^α f_i^β tends to E[f^α f^β]: the mean of a product of two weights "Y|…", as of those
of order 1 (`order_one`).  Hypotheses: f is all that a matrix of its own multiplies, and has a second moment; the
matrices in f stand in no product with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sympy import Expr, Function, Pow, S, Symbol

from tplimits.program.nodes.entries import NO_NEURON, OWN, ArrayEntry, AxisSum, Entry, GaussMean, N, width_symbol
from tplimits.program.nodes.kinds import MatMul
from tplimits.regimes.depth.algebra.products import OPEN, Factor, Poly
from tplimits.regimes.depth.derivation.not_covered import NoFormulasError
from tplimits.regimes.depth.derivation.scalars.growth import growth
from tplimits.regimes.depth.derivation.scalars.order_one import Weight, axes_of, kept

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.depth.algebra.forms import Form
    from tplimits.regimes.depth.algebra.model import Model
    from tplimits.regimes.depth.derivation.lowering import Lowering


def of_several_layers(lowering: Lowering, expr: Expr, env: Mapping[Expr, int]) -> Poly | None:
    """A function of entries of several matrices times the state as a weight; None where it is for others to lower."""
    program, written = lowering.program, lowering.reading.inlined(expr)
    sizes = {N, *map(width_symbol, program.widths)}
    if not _mixes(program, written) or written.has(AxisSum, GaussMean) or written.free_symbols & sizes:
        return None
    scales = {e: _scale(lowering, e) for e in written.atoms(Entry)}
    known = {e.source: scale for e, scale in scales.items() if scale is not None and not scale.free_symbols & sizes}
    if any(e.source not in known for e in scales) or not _has_second_moment(written):
        return None
    matrices = {p: m for p in known for m in lowering.reading.matrices_of[p]}
    lowering.model.neurons |= {p: (matrices[p], known[p]) for p in known}
    function = written.xreplace({e: Entry(e.args[0], NO_NEURON, *e.indices) for e in scales})
    names = ", ".join(sorted({f"`{program[m].name}`" for m in matrices.values()}))
    refusal = (
        f"{lowering.where}: no limit is derived: a function of several dense layers ({names}) is covered behind a "
        "matrix of its own, on a branch of size n^(-1/2)."
    )
    found = Weight(program, function, axes_of(program, function), frozenset(matrices.values()), refusal, of_neuron=True)
    at = tuple(lowering.index(a, env) for a in found.axes)
    return lowering.one((kept(lowering, found), (*at, env[OWN]), 0))


def _mixes(program: Program, written: Expr) -> bool:
    """Whether something that is no product or whole power takes entries of several matrices."""
    heads = [h for h in written.atoms(Function, Pow) if not (h.is_Pow and h.exp.is_Integer and h.exp.is_positive)]
    return any(len({getattr(program[e.source], "matrix", None) for e in h.atoms(Entry)}) > 1 for h in heads)


def _scale(lowering: Lowering, entry: Entry) -> Expr | None:
    """The root of the variance of an entry beside V; None where it is no entry of a matrix times the state."""
    s = lowering.program[entry.source]
    if not isinstance(s, MatMul) or entry.neuron != OWN or s.matrix_indices or len(s.axes) != 1:
        return None
    scale, operand = lowering.reading.operand(entry.source)
    return scale if operand.source == lowering.program.state else None


def _has_second_moment(written: Expr) -> bool:
    drawn = {e: Symbol(f"h{k}", real=True) for k, e in enumerate(sorted(written.atoms(Entry), key=str))}
    plain = written.xreplace({**drawn, **dict.fromkeys(written.atoms(ArrayEntry), S.One)})
    return growth(plain, [*drawn.values()]).established


def operand(lowering: Lowering, source: int) -> Poly:
    """A vector that a matrix multiplies, as a template in which such functions have a place.

    Refuses one that holds them beside other terms: a product of two of them is then one of one neuron.
    """
    outer, lowering.in_operand = lowering.in_operand, True
    found = lowering.template(source)
    lowering.in_operand = outer
    counts = {_count(lowering.model, (f for f in t.factors if OPEN in f[1])) for t in found.terms}
    if counts - {0} and counts != {1}:
        raise NoFormulasError(
            f"{lowering.where}: not covered: a function of several dense layers in a sum with others that one matrix "
            "multiplies; give each a matrix of its own."
        )
    return found


def insist_on_one_neuron(model: Model, name: str, form: Form) -> None:
    """Refuse products of such functions at different neurons, which are independent: one draw is taken of a product."""
    if any(_count(model, factors) not in (0, 2) for factors in form.terms):
        raise NoFormulasError(f"`{name}`: not covered: products of functions of several dense layers at two neurons.")


def _count(model: Model, factors: Iterable[Factor]) -> int:
    return sum(label[0] == "Y" and model.weights[label].of_neuron for label, _, _ in factors)
