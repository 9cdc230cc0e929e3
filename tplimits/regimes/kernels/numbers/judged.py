"""Hypotheses of a kernel derivation that data decides: is the argument of a jump, a pole or a root zero at an input?

Scalars that an argument reads are numbers with intervals there; kets are looked at at some points.  What cannot be
told from 0 is 0: the value of a network keeps fluctuating at this input, however wide it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy
import sympy
from numpy.typing import NDArray
from sympy import Expr, S, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, NoLimitError
from tplimits.law.hypotheses.displaced import shifts
from tplimits.law.hypotheses.moments import tail
from tplimits.law.hypotheses.reader import Unreadable, Value
from tplimits.law.hypotheses.sampled import no_error
from tplimits.law.hypotheses.tails import Growth, infinite_moment
from tplimits.program.nodes.entries import N, entries
from tplimits.program.nodes.functions import JUMPS
from tplimits.program.parts import found, holds
from tplimits.regimes.kernels.derivation.demand import placed
from tplimits.regimes.kernels.derivation.leaves import Data, Given, Moment, Of, TableEntry, sided
from tplimits.regimes.kernels.derivation.nodes import overlap
from tplimits.regimes.kernels.derivation.randomness import Kets
from tplimits.regimes.kernels.derivation.reading import BodyReader, held, later
from tplimits.regimes.kernels.numbers.draws import LogitDraws
from tplimits.regimes.kernels.numbers.inseparable import MeanPoints, cost
from tplimits.regimes.kernels.numbers.tables.frames import Frame
from tplimits.regimes.kernels.numbers.tables.interpreter import Tables
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled, mapped, union

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.kernels.numbers.inputs import Inputs

#: points of random variables, and how far scalars are moved to see what depends on them
_POINTS, _MOVE = 8, 1e-6
#: points of a mean that is too long for quadrature
_DRAWN = 1 << 14
#: rounding of a scalar relative to the sum of the sizes of its terms, and of the errors of its means
_ROUNDING, _SPREADS = 1e-12, 4.0
#: a variance below this share of its terms has no digit left
_NOTHING = 64 * float(numpy.finfo(float).eps)


def judge(derivation: KernelTables, inputs: Inputs, constants: Mapping[Expr, float]) -> None:
    """NoLimitError where a limit lands on a jump, a pole or the end of a root at one of the inputs."""
    judged, jumping = derivation.recursion.judged, _of_differences(derivation)
    if not (judged.pending or judged.doubts or judged.constants or jumping):
        return
    tables = tables_of(derivation, inputs, constants)
    with numpy.errstate(all="ignore"):
        judged.settle(_Points(tables).values)
        for moment in jumping:
            _has_sides(tables, moment)
        # what a vector is at its limits comes first: it may be refused for a better reason than beside them
        for position, limit, beside in sorted(judged.doubts, key=lambda doubt: (bool(doubt[2]), doubt[0])):
            if judged.moment_doubt(position, "").name in judged.assumed:
                continue
            _second_moment(tables, position, limit, beside)


def _of_differences(derivation: KernelTables) -> list[Moment]:
    """The means of functions with jumps at vectors whose variance is a difference, looked for once."""
    known = derivation.remembered["means at differences"]
    if "all" in known:
        return known["all"]
    moments = dict.fromkeys(m for table in derivation.needed for m in found(table.definition, Moment))
    moments |= dict.fromkeys(m for kernel in (derivation.nngp, derivation.ntk) for m in found(kernel, Moment))
    known["all"] = [m for m in moments if holds(m.integrand, *JUMPS) and any(_differences(derivation, m))]
    return known["all"]


def _differences(derivation: KernelTables, moment: Moment) -> Iterator[Expr]:
    """The variances among the covariances of a moment that are sums of terms of either sign."""
    size = len(moment.variables)
    for variance in (moment.covariances[i * size - i * (i - 1) // 2] for i in range(size)):
        whole = derivation.tables[variance.table].definition if isinstance(variance, TableEntry) else variance
        if any(term.could_extract_minus_sign() for term in sympy.Add.make_args(whole)):
            yield variance


def _has_sides(tables: Tables, moment: Moment) -> None:
    """Refuse a vector whose variance is what rounding leaves of 0: the sides of its jump are those of rounding.

    What is 0 without rounding is at the value that the jump has there, and gradients of kinks add up over it.
    """
    for variance in _differences(tables.derivation, moment):
        own = sided(variance, 1, 1)
        value, size = (f.value(own) for f in (tables.frame(1, 1), _Sizes(tables)))
        labels = union([value, size])
        values, sizes = numpy.broadcast_arrays(value.at(labels), size.at(labels))
        left = (values != 0) & (abs(values) <= _NOTHING * sizes)
        if left.any():
            raise NoLimitError(
                f"a vector in E[{moment.integrand}] has the variance {values[left][0]:.1e}, what rounding leaves of a "
                "sum that cancels: it is a difference of vectors that tend to one another, and the limit lands on a "
                "jump, or on that of the derivative of a kink. Leave the difference out."
            )


def tables_of(derivation: KernelTables, inputs: Inputs, constants: Mapping[Expr, float]) -> Tables:
    """Tables of inputs with themselves; random logits by a few draws."""
    if not (derivation.is_drawn or derivation.is_mixture):
        costly = cost(derivation, inputs, inputs, constants).is_too_much
        return Tables(derivation, (inputs, inputs), constants, points=MeanPoints(_DRAWN, (0,)) if costly else None)
    draws = LogitDraws(_POINTS, 0)
    for place in ((1, 1), (1, 2), (2, 2)):
        draws.tables[place] = Tables(derivation, (inputs, inputs), constants, draws, place, derivation.is_mixture)
    return draws.tables[1, 1]


def _second_moment(tables: Tables, position: int, limit: Expr, beside: str) -> None:
    """Refuse a vector without an established second moment at one of the inputs: its covariances are numbers now.

    `beside` is why not, where its scalars are beside their limits.
    """
    recursion = tables.derivation.recursion
    where, name = recursion.program.where(position), recursion.program[position].name
    for kets, _ in _at_numbers(tables, limit):
        found = tail(kets.written(limit), kets)
        if found.kind is Growth.INFINITE and not beside:
            raise NoLimitError(infinite_moment(where, f"{name}⟩", found.reason))
        if not found.established:
            raise NoLimitError(recursion.judged.moment_doubt(position, beside or found.reason).told())


def _at_numbers(tables: Tables, limit: Expr) -> Iterator[tuple[Kets, NDArray[numpy.bool_]]]:
    """What a vector reads with the different numbers that data gives, and at which inputs these are, or [True]."""
    recursion, frame = tables.derivation.recursion, tables.frame(1, 1)
    read: dict[Expr, Labelled] = {}

    def recorded(expr: Expr) -> Expr | None:
        read.setdefault(expr, frame.value(expr))
        return None

    kets = Kets(recursion, recorded)
    tail(kets.written(limit), kets)  # to see what it reads
    labels = union(read.values())
    arrays = numpy.broadcast_arrays(*(v.at(labels) for v in read.values())) if read else [numpy.zeros(1)]
    rows, places = numpy.unique(numpy.stack([a.ravel() for a in arrays], axis=1), axis=0, return_inverse=True)
    # labels of inputs come first
    of_inputs = bool(labels) and labels[0].startswith("input ")
    places = places.reshape(len(arrays[0]) if of_inputs else 1, -1)
    for number, row in enumerate(rows):
        values: dict[Expr, Expr] = {e: sympy.Float(x) for e, x in zip(read, row, strict=False)}
        yield Kets(recursion, values.get), (places == number).any(axis=1)


def without_error(
    derivation: KernelTables, inputs: Inputs, constants: Mapping[Expr, float], positions: Iterable[int]
) -> dict[tuple[int, str], NDArray[numpy.bool_]]:
    """At which inputs means of squares of vectors over draws have no error: by vector, and why."""
    recursion, found = derivation.recursion, dict[tuple[int, str], NDArray[numpy.bool_]]()
    tables = tables_of(derivation, inputs, constants)
    for position in positions:
        limit = None if position in recursion.judged.unread else recursion.nodes[position].body
        if limit is None or recursion.nodes[position].gaussian or not recursion.leaves(limit):
            continue
        for kets, at_inputs in _at_numbers(tables, limit):
            if why := no_error(kets.written(limit), kets.written(limit), kets):
                before = found.get((position, why), numpy.zeros(inputs.many, dtype=bool))
                found[position, why] = before | at_inputs
    return found


def require(derivation: KernelTables, sides: Sequence[Inputs], constants: Mapping[Expr, float]) -> None:
    """The same for inputs that a user gave, as an EvaluationError."""
    try:
        for inputs in {id(side): side for side in sides}.values():
            judge(derivation, inputs, constants)
    except NoLimitError as error:
        raise EvaluationError(f"no number: {error}") from None


class _Points:
    """Parts of bodies at all inputs and at some points of their random variables."""

    def __init__(self, tables: Tables) -> None:
        self.recursion, self.tables = tables.derivation.recursion, tables

    def values(self, reader: BodyReader, expr: Expr) -> list[Value]:
        """The worst of them: those that cannot be told from zero, where there are any, or the least and the largest."""
        exact, scalars = self.recursion.judged.exact, self.recursion.scalars
        limits = {e: held(self.recursion, e) for e in entries(expr) if e.source in scalars and e.source not in exact}
        # logits that stay random, as √n s does, are no numbers that they move about
        logits = {e for e in limits if (scalars[e.source] if expr.has(N) else limits[e]).has(Given)}
        limits = {e: limit for e, limit in limits.items() if e not in logits} | dict.fromkeys(shifts(expr), S.Zero)
        places = {e: sympy.Dummy(real=True) for e in limits}
        body = self._with_means(reader.limit(expr.xreplace(places)))
        # those inside of vectors are numbers as well, with errors
        means = {mean: sympy.Dummy(real=True) for mean in later(body)}
        body = body.xreplace(means)
        try:
            numbers = {places[e]: self._interval(value) for e, value in limits.items()}
            numbers |= {place: self._interval(mean) for mean, place in means.items()}
            others = {s: v for s, (v, _) in numbers.items()}
            here = self._at(body, others)
            spread = abs(self._at(body, others, widened=True) - here)
            for symbol, pair in numbers.items():  # one at a time: errors moved together cancel in a difference
                around = [
                    self._at(body, {**others, symbol: mapped(lambda v, e, sign=sign: v + sign * e, pair)})
                    for sign in (1.0, -1.0)
                ]
                spread = spread + numpy.maximum(*(abs(a - here) for a in around))
            moved = {
                s: mapped(lambda v, i=i: v + _MOVE * (1.3 + 0.1 * (i % 7)), [v])
                for i, (s, (v, _)) in enumerate(numbers.items())
            }
            away = self._at(body, moved, _MOVE)
        except EvaluationError as error:
            raise Unreadable(str(error), later=True) from None
        spread, here, away = (numpy.ravel(a) for a in numpy.broadcast_arrays(spread, here, away))
        known = numpy.isfinite(here) & numpy.isfinite(spread)
        here, errors, moves = here[known], _SPREADS * spread[known], (away != here)[known]
        zeros = numpy.flatnonzero(~(abs(here) > errors))
        ends = {int(here.argmin()): None, int(here.argmax()): None} if len(here) else ()
        chosen = sorted(zeros, key=lambda k: not moves[k]) or ends
        return [Value(float(here[k]), float(errors[k]), bool(moves[k])) for k in chosen]

    def _with_means(self, body: Expr) -> Expr:
        """With the vectors in it that means stand in written out."""
        swap = {}
        for leaf in self.recursion.leaves(body):
            if self.recursion.nodes[leaf.node].body is not None:
                inside = self._with_means(self.recursion.opened(leaf))
                if later(inside):
                    swap[leaf] = inside
        return body.xreplace(swap)

    def _at(self, body: Expr, places: Mapping[Symbol, Labelled], move: float = 0.0, widened: bool = False) -> Array:
        return _PointFrame(self.tables, places, move, widened).value(body).array

    def _interval(self, value: Expr) -> tuple[Labelled, Labelled]:
        """A deterministic scalar at all inputs, and its error."""
        frame, sizes = self.tables.frame(1, 1), _Sizes(self.tables)
        found, size = frame.value(value), sizes.value(value)
        error = mapped(lambda s: _ROUNDING * s + self.tables.error, [size])
        return found, error


class _Sizes(Frame):
    """Sums of the absolute values of terms instead of sums: what rounding is relative to."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables, 1, 1)

    def _compute(self, expr: Expr) -> Labelled:
        if isinstance(expr, TableEntry):
            table = self.tables.derivation.recursion.tables[expr.table]
            return self.value(placed(sided(table.definition, 1, 1), table, expr))
        if isinstance(expr, Moment):
            # an error of its own counts as rounding: the square of a mean that is 0 in disguise is 0 as well
            return mapped(lambda v: abs(v) + self.tables.error / _ROUNDING, [super()._compute(expr)])
        if isinstance(expr, Data) or expr.is_number:
            return mapped(numpy.abs, [super()._compute(expr)])
        if isinstance(expr, sympy.Add):
            return mapped(lambda *arrays: sum(arrays[1:], arrays[0]), [self.value(a) for a in expr.args])
        if isinstance(expr, sympy.Pow) and expr.exp.is_positive:
            return super()._compute(expr)
        if isinstance(expr, sympy.Mul):
            return super()._compute(expr)
        return mapped(numpy.abs, [self.tables.frame(1, 1).value(expr)])


class _PointFrame(Frame):
    """Kets at points of their Gaussian variables, scalars at given numbers; `widened` by errors of their variances."""

    def __init__(self, tables: Tables, places: Mapping[Symbol, Labelled], move: float, widened: bool) -> None:
        super().__init__(tables, 1, 1)
        self.places, self.move, self.widened = places, move, widened
        #: kets that were drawn: a normal of their own, and what they are on those of all
        self.drawn: dict[Of, tuple[Labelled, dict[Of, Labelled]]] = {}

    def _compute(self, expr: Expr) -> Labelled:
        return self.places[expr] if expr in self.places else super()._compute(expr)

    def _logit(self, leaf: Of | Given) -> Labelled:
        recursion = self.tables.derivation.recursion
        node = leaf.node if isinstance(leaf, Of) else leaf.source
        if not recursion.nodes[node].gaussian:
            return self.value(recursion.opened(Of(leaf.args[0], sympy.Integer(1), *leaf.indices)))
        ket = Of(sympy.Integer(node), sympy.Integer(1), *leaf.indices)
        if ket not in self.drawn:
            normal = numpy.random.default_rng([node, leaf.side if isinstance(leaf, Of) else 1])
            self.drawn[ket] = (Labelled(normal.standard_normal(_POINTS), ("point",)), self._shares(ket))
        shares = self.drawn[ket][1].items()
        parts = [mapped(numpy.multiply, [share, self.drawn[other][0]]) for other, share in shares]
        moved = Labelled(numpy.asarray(self.move * (1.7 - 0.1 * (node % 5))))
        return mapped(lambda *found: sum(found), [*parts, moved])

    def _shares(self, ket: Of) -> dict[Of, Labelled]:
        """The coefficients of a Gaussian ket on the normals of those drawn before it, and on one of its own.

        So that what is a multiple of another, as W(x/|x|) of W x, is drawn as one.
        """
        recursion, frame = self.tables.derivation.recursion, self.tables.frame(1, 1)
        variance, mine = recursion.inner(ket, ket), recursion.nodes[ket.node].sources
        left, found = frame.value(variance), dict[Of, Labelled]()
        for other, (_, theirs) in self.drawn.items():
            both = [[found[k], theirs[k]] for k in found if k in theirs]
            if both or overlap(mine, recursion.nodes[other.node].sources):
                known = [frame.value(recursion.inner(ket, other)), *(mapped(numpy.multiply, pair) for pair in both)]
                shared = mapped(lambda whole, *parts: whole - sum(parts), known)
                found[other] = mapped(_quotient, [shared, theirs[other]])
                left = mapped(lambda v, c: v - c * c, [left, found[other]])
        rounding = mapped(lambda s: _ROUNDING * s, [_Sizes(self.tables).value(variance)])
        deviation = mapped(lambda v, r: numpy.sqrt(numpy.where(v > r, v, 0.0)), [left, rounding])
        if self.widened:
            deviation = mapped(lambda d, r: numpy.maximum(d, numpy.sqrt(r)), [deviation, rounding])
        return {**found, ket: deviation}


def _quotient(above: Array, below: Array) -> Array:
    return numpy.where(below > 0, above / numpy.where(below > 0, below, 1.0), 0.0)
