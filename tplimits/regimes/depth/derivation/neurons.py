"""Functions of several dense layers at one neuron, as U f(W₁ x, W₂ x)/√n: weights whose scalars are entries of layers.

Given V the entries of W₁ x, W₂ x, … at one neuron are Gaussian, of covariance V for each matrix and independent of the
averages that f reads too, as in relu(W₁ Σ_k A_k x_k), A a softmax of logits of order 1.  Neurons are independent given
these, so that (1/n) Σ_i f_i^α f_i^β is E[f^α f^β] in the mean over the averages, and as far off as the branch allows: a
product of two weights "Y|…", as of those of order 1 (`order_one`).  Hypotheses: f is all that a matrix of its own
multiplies, and has a second moment; the matrices in f stand in no product with it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sympy import Expr, Function, Integer, Pow, S, prime, sqrt

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import (
    NO_NEURON,
    OWN,
    AxisSum,
    Entry,
    GaussMean,
    N,
    entries,
    reads_vectors,
    width_symbol,
)
from tplimits.program.nodes.kinds import InitialMatrix
from tplimits.regimes.depth.algebra.activations import U
from tplimits.regimes.depth.algebra.products import OPEN, Factor, Poly
from tplimits.regimes.depth.derivation.not_covered import NoFormulasError
from tplimits.regimes.depth.derivation.scalars.growth import insist_on_a_second_moment
from tplimits.regimes.depth.derivation.scalars.limits import NotSmall, Weight, axes_of, insist_on_a_limit, limit_of
from tplimits.regimes.depth.derivation.scalars.order_one import kept
from tplimits.regimes.depth.derivation.scalars.written import Rest, Unwritten, written

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.forms import Form
    from tplimits.regimes.depth.algebra.model import Model
    from tplimits.regimes.depth.derivation.lowering import Lowering

#: a width at which averages are a little off their limits, and the first of the primes that tell by how much
_LARGE, _FIRST = 10**6, 5


def of_several_layers(lowering: Lowering, expr: Expr, env: Mapping[Expr, int]) -> Poly | None:
    """A function of entries of several matrices times the state as a weight; None where it is for others to lower."""
    function = _function(lowering, expr)
    vectors = [] if function is None else [e for e in entries(function) if e.neuron == OWN]
    if function is None or not vectors or any(e.source == lowering.program.state for e in vectors):
        return None
    program, of = lowering.program, lowering.reading.matrices_of
    names = ", ".join(sorted({f"`{program[e.source].name}`" for e in vectors}))
    refusal = (
        f"{lowering.where}: no limit is derived: a function of several dense layers ({names}) is covered behind a "
        "matrix of its own, on a branch of size n^(-1/2)."
    )
    matrices = frozenset(e.source for e in vectors).union(*(of[e.source] for e in entries(function)))
    plain = function.xreplace({e: Entry(e.args[0], NO_NEURON, *e.indices) for e in vectors})
    found = Weight(program, plain, axes_of(lowering, plain), matrices, refusal, of_neuron=True)
    at = tuple(lowering.index(a, env) for a in found.axes)
    return lowering.one((kept(lowering, found), (*at, env[OWN]), 0))


def reason(lowering: Lowering, expr: Expr, error: NoLimitError) -> NoLimitError:
    """Why what is made of several layers is refused: as a whole, if that a part has no place or no moments is all."""
    known = lowering.without_limits
    if not isinstance(error, NoFormulasError):
        return known.get(expr, error) if error in known.values() else error
    plain = lowering.plain.get(error, error)
    if expr not in known:
        # a factor that has no moments may stand in a product that has them, h²/(h² + s²)
        return plain if expr.is_Mul else error
    # there may be numbers all the same, where averages keep a pole off
    told = NoFormulasError(str(known[expr]))
    lowering.plain[told] = plain
    return told


def of_layer(lowering: Lowering, entry: Entry, body: Expr, env: Mapping[Expr, int]) -> Poly | None:
    """f(W a), `body` in U, for an a that is random itself: W acts on each token of it; None where a is the state."""
    scale, operand = lowering.reading.operand(entry.source)
    if not lowering.in_operand or operand.source == lowering.program.state:
        return None
    return of_several_layers(lowering, body.xreplace({U: entry / scale}), env)


def _function(lowering: Lowering, expr: Expr) -> Expr | None:
    """A function of several layers written out, as n → ∞; None where it is none, grows or has no second moment."""
    if expr.has(GaussMean) or not any(map(reads_vectors, _heads(lowering.reading.inlined(expr)))):
        return None
    refused, sizes = NotSmall(""), {N, *map(width_symbol, lowering.program.widths)}
    try:
        found = written(lowering, expr, {}, itertools.count())
        # powers of n in front are those of the product that it stands in
        front = found.as_independent(Entry, as_Add=False)[0].free_symbols
        rest = found.atoms(Rest)
        # W (x + r/√n) is one layer in the limit, and several at every width
        if front & sizes or not (rest or any(_mixes(lowering, h) for h in _heads(found))):
            return None
        if any(
            e.source == lowering.program.state and e.neuron == OWN
            for e in entries(found.xreplace(dict.fromkeys(rest, S.One)))
        ):
            return None
        # also √n times what vanishes has to have a second moment: its coefficients are random
        for size in (sqrt(N), S.Zero) if rest else (S.Zero,):
            limit = limit_of(lowering, found.xreplace(dict.fromkeys(rest, size)), refused)
            insist_on_a_limit(lowering, limit, refused)
        limit = limit_of(lowering, found, refused)
        scalars = {e for e in entries(found) if e.neuron == NO_NEURON and e.source != lowering.program.state}
        still = scalars - set(entries(limit))
        settled = sorted(rest | still, key=str)
        # in powers of scalars that settle all digits are known: draws are for what has no series
        if still and not lowering.taken.as_weights:
            return None
        _insist_beside(lowering, found, settled, refused)
        return limit
    except NoLimitError as error:
        if error is not refused:  # which says nothing but that a function grows
            lowering.without_limits[expr] = error
        return None
    except Unwritten:
        return None


def _insist_beside(lowering: Lowering, found: Expr, settled: Sequence[Expr], refused: NotSmall) -> None:
    """NoLimitError where what settles has to be at its limit: the pole of tanh(h)/(h + S/√n) moves at every width."""
    if not settled:
        return
    sizes = dict.fromkeys((N, *map(width_symbol, lowering.program.widths)), Integer(_LARGE))
    for sign in (1, -1):
        # distinct primes: two that move apart must not cancel
        beside = {e: Integer(sign * prime(_FIRST + k)) for k, e in enumerate(settled)}
        insist_on_a_second_moment(lowering, found.xreplace(beside).xreplace(sizes), refused)


def _mixes(lowering: Lowering, head: Expr) -> bool:
    """Whether it takes several entries: of several matrices, of members of a family, or of one matrix at tokens."""
    read = (lowering.program[int(e.source)] for e in entries(head))
    return head.has(AxisSum) or len(entries(head)) > 1 or any(isinstance(s, InitialMatrix) and s.axes for s in read)


def _heads(written_out: Expr) -> list[Expr]:
    """What is no product or whole power."""
    heads = written_out.atoms(Function, Pow)
    return [h for h in heads if not (h.is_Pow and h.exp.is_Integer and h.exp.is_positive)]


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
