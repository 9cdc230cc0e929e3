"""Expressions of a recursion as arrays, or as steps of a tape, with two inputs for its sides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.near_zero import beside_poles
from tplimits.program.nodes.entries import ArrayEntry, AxisSum, GaussMean, Kron, Lookup, free_indices
from tplimits.program.nodes.evaluate import ARRAY_FUNCTIONS, evaluate, number_first
from tplimits.program.nodes.functions import BENT
from tplimits.program.nodes.series import near, on_arrays
from tplimits.program.parts import found, holds, remembered
from tplimits.regimes.kernels.derivation.leaves import (
    SECOND,
    Data,
    Datum,
    DrawMean,
    Given,
    Moment,
    Of,
    TableEntry,
    on_first,
    plain_axis,
    sided,
)
from tplimits.regimes.kernels.numbers.tables import determinants, gaps, sums
from tplimits.regimes.kernels.numbers.tables.entrywise import added, indexed, looked_up, one_less, one_more, power, same
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled, Traced, averaged, contracted, mapped, renamed
from tplimits.regimes.kernels.numbers.tables.laws import COLLINEAR, OPPOSITE, Law, evaluated, part_of
from tplimits.regimes.kernels.numbers.tables.moment import evaluated_moment, function_of
from tplimits.regimes.kernels.numbers.tables.own import is_own
from tplimits.regimes.kernels.numbers.tables.places import batch, gathered, positions
from tplimits.regimes.kernels.numbers.tables.singular import equal_places, flagged, suspicious

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.demand import Ties
    from tplimits.regimes.kernels.numbers.inputs import Inputs
    from tplimits.regimes.kernels.numbers.tables.interpreter import Tables


class Frame:
    """Expressions in the running indices of one table, with inputs `left` and `right` for its sides 1 and 2."""

    def __init__(self, tables: Tables, left: int, right: int) -> None:
        self.tables, self.input = tables, {1: left, 2: right}
        self.memo: dict[Expr, Any] = {}
        self.gaps: dict[tuple[Expr, int], Any] = {}
        self.program = tables.derivation.recursion.program

    def side(self, name: str) -> Inputs:
        return self.tables.sides[self.input[2 if SECOND in name else 1] - 1]

    def size(self, name: str) -> int:
        return self.side(name).sizes[plain_axis(name)]

    def mean(self, expr: Expr) -> Any:
        """An expression as an array, with the mean over draws of random logits taken."""
        if expr.has(DrawMean) and not _linear_in_draws(expr):
            raise EvaluationError("a nonlinear function of a mean over random logits is needed, which is not offered.")
        found = self.value(expr if self.tables.draws is None else _beside_poles(expr))
        return found if self.tables.conditional else averaged(found, "draw")

    def value(self, expr: Expr) -> Any:
        """An expression as an array; functions of random logits have a dimension for their draws."""
        if expr not in self.memo:
            rows = self.tables.rows
            sides = {self.input[s] for s in sides_of(expr)} if rows is not None else set()
            # of one input: computed once for it, not once for each of its pairs
            if rows is not None and len(sides) == 1 and not _holds_both(expr):
                self.memo[expr] = rows.row(expr, sides.pop())
            else:
                self.memo[expr] = self._compute(expr)
        return self.memo[expr]

    def _compute(self, expr: Expr) -> Any:
        if isinstance(expr, sympy.Symbol) and expr.name.startswith("|") and expr.name.endswith("|"):
            return Labelled(numpy.asarray(float(self.size(expr.name[1:-1]))))
        if expr in self.tables.constants:
            return Labelled(numpy.asarray(self.tables.constants[expr]))
        if isinstance(expr, (Of, Given)):
            return self._logit(expr)
        if isinstance(expr, (Data, TableEntry)):
            return self._leaf(expr)
        if isinstance(expr, DrawMean):
            return self.value(expr.product)
        if isinstance(expr, ArrayEntry):
            return self.read(
                Labelled(self.program.arrays[expr.array].values, tuple("abcdefgh"[: len(expr.indices)])), expr.indices
            )
        if isinstance(expr, Kron):
            return mapped(same, list(map(self._place, expr.args)))
        if isinstance(expr, AxisSum):
            found = determinants.gram(self, expr) if self.tables.determined else None
            return found.value if found else sums.axis_sum(self, expr)
        if isinstance(expr, Moment):
            return self._moment(expr)
        if expr.is_number or isinstance(expr, GaussMean):
            return Labelled(numpy.asarray(float(evaluate(expr, self.tables.constants))))
        if isinstance(expr, sympy.Mul):
            return contracted([self.value(a) for a in number_first(expr)], frozenset())
        if isinstance(expr, sympy.Add):
            return mapped(added, [self.value(a) for a in expr.args])
        if isinstance(expr, sympy.Pow):
            return mapped(power(expr.exp), [self.value(expr.base)])
        if isinstance(expr, near):  # its series stands where the function has no number
            numbers = tuple(float(a) if a.is_number else None for a in expr.args)
            read = [self.value(a) for a in expr.args if not a.is_number]
            return mapped(lambda *arrays: on_arrays(*_filled(numbers, arrays)), read)
        if type(expr) in ARRAY_FUNCTIONS:
            return mapped(ARRAY_FUNCTIONS[type(expr)], [self.value(a) for a in expr.args])
        raise EvaluationError(f"`{expr}` has no value; give {expr}=….")

    def _leaf(self, leaf: Data | TableEntry) -> Any:
        if isinstance(leaf, Data):
            return self.read(self.tables.data(leaf.source, self.input[leaf.side]), leaf.indices, batch=1)
        left, right = (self.input[s] for s in leaf.sides)
        return self._read(leaf, self.tables.entry(leaf.table, left, right, self._equal(leaf))[0])

    def gap_of_entry(self, leaf: TableEntry, sign: int) -> Any:
        """The gap of a leaf, or its determinant, where its table has one."""
        left, right = (self.input[s] for s in leaf.sides)
        place = leaf.table, left, right, self._equal(leaf)
        found = self.tables.entry(*place)[1] if sign > 0 else self.tables.opposed(*place)
        return None if found is None else self._read(leaf, found)

    def _equal(self, leaf: TableEntry) -> Ties:
        return self.tables.equal_places(leaf, *(self.input[s] for s in leaf.sides))

    def _read(self, leaf: TableEntry, value: Any) -> Any:
        """What a table holds at the indices of a leaf."""
        many = len(self.tables.derivation.recursion.tables[leaf.table].left)
        gone = {many + q for _, q in self._equal(leaf)}
        indices = [i for k, i in enumerate(leaf.indices) if k not in gone]
        return self.read(value, indices, batch=len(value.labels) - len(indices))

    def _logit(self, leaf: Of | Given) -> Any:
        """Draws of a random logit at its inputs and places."""
        node, side = (leaf.node, leaf.side) if isinstance(leaf, Of) else (leaf.source, leaf.side)
        draws, side = self.tables.draws, self.input[side]
        assert draws is not None
        recursion = self.tables.derivation.recursion
        value = draws.of(node, self.tables.places[side - 1])
        picked = Labelled(value.array, (batch(side), *value.labels[1:]))
        axes = recursion.nodes[node].axes
        indices = [i for i, a in zip(leaf.indices, axes, strict=True) if a not in recursion.infinite]
        front = Labelled(numpy.moveaxis(picked.array, -1, 1), (picked.labels[0], "draw", *picked.labels[1:-1]))
        return self.read(front, indices, batch=2)

    def read(self, value: Any, indices: Sequence[Expr], batch: int = 0) -> Any:
        """Entries of an array at index expressions; −1 reads zero."""
        names = [i.name for i in indices if isinstance(i, sympy.Symbol)]
        front = value.labels[:batch]
        if len(names) == len(indices) and len(set(names)) == len(names):
            return renamed([value], (*front, *names))
        if any(i.has(Datum) for i in indices):  # places that hold for one set of inputs alone
            if self.tables.tape is not None:
                return looked_up([value, *map(self._place, indices)], front)
            return gathered(self, Labelled(value.array, front), indices, absent=0.0)
        found = [positions(self, i) for i in indices]
        labels = tuple(dict.fromkeys(x for _, own in found for x in own))
        places = tuple(Labelled(numpy.asarray(p), own).at(labels) for p, own in found)
        return indexed([value], places, (*front, *labels), tuple(self.size(x) for x in labels))

    def _place(self, index: Expr) -> Any:
        """An index expression as an array of whole numbers, −1 where there is no entry."""
        if not index.has(Datum) or self.tables.tape is None:
            return Labelled(numpy.asarray((found := positions(self, index))[0], dtype=numpy.float64), found[1])
        if not isinstance(index, Datum):  # a table of indices at a place that data say
            values = Labelled(self.program.tables[index.table].values + 1.0)
            return mapped(one_less, [looked_up([values, *map(self._place, index.indices)], ())])
        data = self.tables.data(index.source, self.input[index.side])
        plain = not any(i.has(Lookup, Datum) for i in index.indices)
        read = self.read(data if plain else mapped(one_more, [data]), index.indices, batch=1)
        return read if plain else mapped(one_less, [read])

    def _moment(self, moment: Moment) -> Any:
        function = None if moment.values else function_of(moment, self.tables.constants)
        # all closed moments of one law share its roots and angles
        if function is not None and function.route == "closed" and not self.tables.extended:
            law, values = self.law(moment)
            place = law.place(function)
            return part_of([self._laid_out(law, values)], place)
        if self.tables.determined and self.input[1] != self.input[2] and len(sides_of(moment)) == 2:
            raise determinants.NotDetermined
        covariances = [self.value(c) for c in moment.covariances]
        values = [self.value(v) for v in moment.values]
        points, constants = self.tables.points, self.tables.constants
        if points is not None and points.draws(moment, constants):
            split = len(covariances)
            return mapped(
                lambda *arrays: points.mean(moment, constants, arrays[:split], arrays[split:]), [*covariances, *values]
            )
        if len(covariances) == 3:
            self._note(moment, lambda: flagged(covariances))

        def of_arrays(*arrays: Array) -> Array:
            value, error = evaluated_moment(
                moment, arrays[: len(covariances)], arrays[len(covariances) :], self.tables.constants
            )
            self.tables.error = max(self.tables.error, error)
            return value

        return mapped(of_arrays, [*covariances, *values])

    def law(self, moment: Moment) -> tuple[Law, list[Any]]:
        """The law of a moment, shared by all moments of it, and its arguments (see `laws`)."""
        covariances = moment.covariances
        key = (self.input[1], self.input[2], *covariances)
        if key in self.tables.laws:
            return self.tables.laws[key]
        if len(covariances) == 1:
            value = self.value(covariances[0])
            found = Law(False, coincident=True), [value, value, value]
        else:
            found = self._pair_law(moment, covariances)
        if self.tables.tape is not None:
            self.tables.laws[key] = found
        return found

    def _pair_law(self, moment: Moment, covariances: Sequence[Expr]) -> tuple[Law, list[Any]]:
        c11, c12, c22 = covariances
        # a variable with itself: one variance, no angle to compute
        if self.input[1] == self.input[2] and len({sided(c, 1, 1) for c in covariances}) == 1:
            value = self.value(c11)
            return Law(False, coincident=True), [value, value, value]
        kept = self.tables.kept_beside(self, c12) if is_own(covariances) else None
        first, third = self.value(c11), self.value(c22)
        if kept is not None and self.tables.determined:
            return Law(False, determined=True), [first, third, self.value(c12), kept]
        if kept is not None:
            alone = not any(x for x in kept.labels if not x.startswith("input "))
            acute = gaps.acute(self, c12)
            # one law of two inputs, as perceptrons have, costs less than another product of all data would
            # functions that are never negative have no opposite inputs: their angle is acute
            opposed = None if acute or alone else gaps.gap(self, c12, -1)
            law = Law(True, opposed=opposed is not None)
            powers = (c ** sympy.Rational(e, 2) for e in (1, -1) for c in (c11, c22))
            values = [first, third, kept, *map(self.value, powers), *([] if opposed is None else [opposed])]
            doubts = [] if acute or opposed is not None else [OPPOSITE]
            for doubt in (*doubts, *([COLLINEAR] if alone else [])):  # of places the angle is 0: they would be too many
                self._note(moment, partial(self._part, law, values, doubt))
            return law, values
        cross = self.value(c12)
        self._note(moment, lambda: flagged([first, cross, third], self._same_places(cross)))
        return Law(False), [first, third, cross]

    def _part(self, law: Law, values: list[Any], part: Any) -> Any:
        law.place(part)  # before what has no steps is laid out
        return part_of([self._laid_out(law, values)], law.place(part))

    def _laid_out(self, law: Law, values: list[Any]) -> Any:
        """All parts of a law; on a tape one step, however many parts it gets."""
        if self.tables.tape is None or not any(isinstance(v, Traced) for v in values):  # numbers are laid out at once
            return evaluated(values, law)
        key = ("parts", id(law))
        if key not in self.tables.laws:
            self.tables.laws[key] = (law, evaluated(values, law))
        return self.tables.laws[key][1]

    def of_law(self, moment: Moment, slopes: tuple[float, float]) -> Any:
        """The gap, or the determinant, of a piecewise linear function, where that of its law is known."""
        law, values = self.law(moment)
        return self._part(law, values, slopes) if law.gapped or law.determined else None

    def _same_places(self, value: Any) -> Labelled | None:
        """On a tape of one input, where a law is one of a variable with itself."""
        if self.tables.tape is None or self.input[1] != self.input[2]:
            return None
        return equal_places(self.program, self.side(""), value.labels)

    def _note(self, moment: Moment, flags: Callable[[], Any]) -> None:
        """Where the law of a kinked function is nearly singular."""
        tables = self.tables
        if not moment.integrand.has(*BENT):
            return
        if tables.tape is not None:
            tables.tape.watched.append((flags(), dict(self.input)))
        elif tables.suspects is not None:
            tables.suspects += suspicious(self.program, tables.sides, self.input, flags())


@remembered(1 << 10)
def _beside_poles(expr: Expr) -> Expr:
    """Functions of random logits, and of sums of them, by their series beside poles that are removable."""
    sums_of_logits = [one for one in found(expr, AxisSum) if _is_sum_of_logits(one)]
    names = {part: sympy.Dummy(real=True) for part in (*sums_of_logits, *found(expr, Of, Given))}
    written = beside_poles(expr.xreplace(names), tuple(names.values()))
    return written.xreplace({name: leaf for leaf, name in names.items()})


@remembered(1 << 14)
def sides_of(expr: Expr) -> frozenset[int]:
    """The sides of the leaves of an expression."""
    leaves = found(expr, Data, Datum, TableEntry, Of)
    return frozenset(s for leaf in leaves for s in (leaf.sides if isinstance(leaf, TableEntry) else (leaf.side,)))


def _is_sum_of_logits(one: AxisSum) -> bool:
    moving = [f for f in sympy.Mul.make_args(sums.nest(one)[1]) if holds(f, Of, Given)]
    return len(moving) == 1 and isinstance(moving[0], (Of, Given))


def _filled(numbers: Sequence[float | None], arrays: Iterable[Array]) -> Iterator[Any]:
    """The numbers, with arrays where there is none."""
    others = iter(arrays)
    return (next(others) if n is None else n for n in numbers)


def _holds_both(expr: Expr) -> bool:
    """Whether places of both vectors stand there, as in x′ δ(i, i′): read for one input they would be one place."""
    return len({on_first(i) for i in free_indices(expr)}) < len(free_indices(expr))


def _linear_in_draws(expr: Expr) -> bool:
    """Whether means over draws stand in an expression linearly, one in a term."""
    if isinstance(expr, DrawMean) or not expr.has(DrawMean):
        return True
    if isinstance(expr, sympy.Mul) and sum(a.has(DrawMean) for a in expr.args) > 1:
        return False
    if not isinstance(expr, (sympy.Add, sympy.Mul, AxisSum)):
        return False
    return all(_linear_in_draws(a) for a in expr.args if isinstance(a, Expr))
