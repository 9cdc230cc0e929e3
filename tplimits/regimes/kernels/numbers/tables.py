"""Tables of a kernel derivation as arrays: for inputs against themselves, and for blocks of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from numpy.typing import NDArray
from sympy import Expr

from tplimits.errors import EvaluationError
from tplimits.program.nodes.entries import ArrayEntry, AxisSum, GaussMean, Lookup, axis_symbol
from tplimits.program.nodes.evaluate import ARRAY_FUNCTIONS, evaluate
from tplimits.regimes.kernels.derivation.leaves import (
    SECOND,
    Data,
    Datum,
    DrawMean,
    Given,
    Kron,
    Moment,
    Of,
    TableEntry,
    plain_axis,
    second,
)
from tplimits.regimes.kernels.numbers.labelled import Labelled, averaged, contracted, mapped
from tplimits.regimes.kernels.numbers.moment import evaluated_moment
from tplimits.regimes.kernels.numbers.singular import nearly_singular, same_data

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.kernels.derivation.nodes import KernelTable
    from tplimits.regimes.kernels.numbers.draws import LogitDraws
    from tplimits.regimes.kernels.numbers.inputs import Inputs

Array = NDArray[numpy.float64]
#: number of a table and of its inputs
Key = tuple[int, int, int]


@dataclass
class Tables:
    """Values of the tables for two batches of inputs, computed when asked for."""

    derivation: KernelTables
    sides: Sequence[Inputs]
    constants: Mapping[Expr, float]
    draws: LogitDraws | None = None
    places: tuple[int, int] = (1, 2)
    conditional: bool = False
    known: dict[Key, Labelled] = field(default_factory=dict)
    error: float = 0.0
    extended: bool = False
    #: where nearly singular laws are noted; None where nobody asks
    suspects: list[Labelled] | None = None

    def value(self, number: int, left: int, right: int) -> Labelled:
        """A table between inputs `left` and `right` (1 or 2)."""
        wanted = self._key(number, left, right)
        waiting = [wanted]
        while waiting:  # what stands in a definition first, without a recursion through all layers
            key = waiting[-1]
            missing = [k for k in self._read_by(key) if k not in self.known] if key not in self.known else []
            if not missing:
                waiting.pop()
                self._find(key)
            waiting += missing
        return self.known[wanted]

    def _key(self, number: int, left: int, right: int) -> Key:
        return number, left, left if self.derivation.recursion.tables[number].single else right

    def _read_by(self, key: Key) -> list[Key]:
        """The tables in the definition of a table."""
        number, *inputs = key
        leaves = self.derivation.recursion.tables[number].definition.atoms(TableEntry)
        return [self._key(leaf.table, *(inputs[s - 1] for s in leaf.sides)) for leaf in leaves]

    def _find(self, key: Key) -> None:
        if key not in self.known:
            number, left, right = key
            table = self.derivation.recursion.tables[number]
            self.known[key] = _complete(self.frame(left, right).mean(table.definition), self, table, left, right)

    def frame(self, left: int, right: int) -> Frame:
        """Where expressions are evaluated for two of the inputs."""
        return Frame(self, left, right)


def _complete(found: Labelled, tables: Tables, table: KernelTable, left: int, right: int) -> Labelled:
    """The array over all inputs and axes of its table, in order."""
    labels = [_batch(left)] + ([] if left == right else [_batch(right)]) + [x for x in found.labels if x == "draw"]
    sizes = {_batch(s): tables.sides[s - 1].many for s in (left, right)}
    if tables.draws is not None:
        sizes["draw"] = tables.draws.many
    for axes, side, mark in ((table.left, left, False), (table.right, right, True)):
        for a in axes:
            name = second(axis_symbol(a)).name if mark else a
            labels.append(name)
            sizes[name] = tables.sides[side - 1].sizes[plain_axis(a)]
    return Labelled(numpy.broadcast_to(found.at(labels), [sizes[x] for x in labels]), tuple(labels))


def _batch(side: int) -> str:
    return f"input {side}"


class Frame:
    """Expressions in the running indices of one table, with inputs `left` and `right` for its sides 1 and 2."""

    def __init__(self, tables: Tables, left: int, right: int) -> None:
        self.tables, self.input = tables, {1: left, 2: right}
        self.memo: dict[Expr, Labelled] = {}
        self.program = tables.derivation.recursion.program

    def side(self, name: str) -> Inputs:
        return self.tables.sides[self.input[2 if SECOND in name else 1] - 1]

    def size(self, name: str) -> int:
        return self.side(name).sizes[plain_axis(name)]

    def mean(self, expr: Expr) -> Labelled:
        """An expression as an array, with the mean over draws of random logits taken."""
        if expr.has(DrawMean) and not _linear_in_draws(expr):
            raise EvaluationError("a nonlinear function of a mean over random logits is needed, which is not offered.")
        found = self.value(expr)
        return found if self.tables.conditional else averaged(found, "draw")

    def value(self, expr: Expr) -> Labelled:
        """An expression as an array; functions of random logits have a dimension for their draws."""
        if expr not in self.memo:
            self.memo[expr] = self._compute(expr)
        return self.memo[expr]

    def _compute(self, expr: Expr) -> Labelled:
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
            return self._read(
                Labelled(self.program.arrays[expr.array].values, tuple("abcdefgh"[: len(expr.indices)])), expr.indices
            )
        if isinstance(expr, Kron):
            return self._kron(expr)
        if isinstance(expr, AxisSum):
            return self._sum(expr)
        if isinstance(expr, Moment):
            return self._moment(expr)
        if expr.is_number or isinstance(expr, GaussMean):
            return Labelled(numpy.asarray(float(evaluate(expr, self.tables.constants))))
        if isinstance(expr, sympy.Mul):
            return contracted([self.value(a) for a in expr.args], set())
        if isinstance(expr, sympy.Add):
            found = [self.value(a) for a in expr.args]
            return mapped(lambda *arrays: sum(arrays[1:], arrays[0]), found)
        if isinstance(expr, sympy.Pow):
            base = self.value(expr.base)
            return mapped(_power(expr.exp), [base])
        if type(expr) in ARRAY_FUNCTIONS:
            return mapped(ARRAY_FUNCTIONS[type(expr)], [self.value(a) for a in expr.args])
        raise EvaluationError(f"`{expr}` has no value; give {expr}=….")

    def _leaf(self, leaf: Data | TableEntry) -> Labelled:
        if isinstance(leaf, Data):
            side = self.input[leaf.side]
            array = self.tables.sides[side - 1].arrays[leaf.source]
            array = array.astype(numpy.longdouble) if self.tables.extended else array
            axes = self.program[leaf.source].axes
            return self._read(Labelled(array, (_batch(side), *axes)), leaf.indices, batch=1)
        left, right = (self.input[s] for s in leaf.sides)
        value = self.tables.value(leaf.table, left, right)
        return self._read(value, leaf.indices, batch=len(value.labels) - len(leaf.indices))

    def _logit(self, leaf: Of | Given) -> Labelled:
        """Draws of a random logit at its inputs and places."""
        node, side = (leaf.node, leaf.side) if isinstance(leaf, Of) else (leaf.source, leaf.side)
        draws, side = self.tables.draws, self.input[side]
        assert draws is not None
        recursion = self.tables.derivation.recursion
        value = draws.of(node, self.tables.places[side - 1])
        picked = Labelled(value.array, (_batch(side), *value.labels[1:]))
        axes = recursion.nodes[node].axes
        indices = [i for i, a in zip(leaf.indices, axes, strict=True) if a not in recursion.infinite]
        front = Labelled(numpy.moveaxis(picked.array, -1, 1), (picked.labels[0], "draw", *picked.labels[1:-1]))
        return self._read(front, indices, batch=2)

    def _positions(self, index: Expr) -> tuple[NDArray[numpy.intp] | int, tuple[str, ...]]:
        """An index expression as integers over the running indices it depends on."""
        if index.is_Integer:
            return int(index), ()
        if isinstance(index, Lookup):
            read = self._picked(Labelled(self.program.tables[index.table].values), index.indices, absent=-1)
            return read.array, read.labels
        if isinstance(index, Datum):
            side = self.input[index.side]
            tokens = self.tables.sides[side - 1].arrays[index.source].astype(numpy.intp)
            read = self._picked(Labelled(tokens, (_batch(side),)), index.indices, absent=-1)
            return read.array, read.labels
        run: NDArray[numpy.intp] = numpy.arange(self.size(index.name))
        return run, (str(index.name),)

    def _picked(self, value: Labelled, indices: Sequence[Expr], absent: float) -> Labelled:
        """An array at index expressions for its last dimensions; `absent` where an index says that there is no entry.

        The first dimensions, which have labels, are kept; others are the running indices and inputs of the indices.
        """
        found = [self._positions(i) for i in indices]
        labels = tuple(dict.fromkeys((*value.labels, *(x for _, own in found for x in own))))
        front = [(numpy.arange(size), (x,)) for x, size in zip(value.labels, value.array.shape, strict=False)]
        places = [Labelled(numpy.asarray(p), own).at(labels) for p, own in (*front, *found)]
        picked = numpy.broadcast_to(value.array[tuple(places)], [self._length(x, value) for x in labels])
        for place in (p for p in places if p.min() < 0):
            picked = numpy.where(place < 0, absent, picked)
        return Labelled(picked, labels)

    def _length(self, label: str, value: Labelled) -> int:
        """The number of entries along a label: of an array, of a batch of inputs, of an axis."""
        if label in value.labels:
            return value.array.shape[value.labels.index(label)]
        inputs = {_batch(side): side for side in self.input.values()}
        return self.tables.sides[inputs[label] - 1].many if label in inputs else self.size(label)

    def _read(self, value: Labelled, indices: Sequence[Expr], batch: int = 0) -> Labelled:
        """Entries of an array at index expressions; −1 reads zero."""
        names = [i.name for i in indices if isinstance(i, sympy.Symbol)]
        front = value.labels[:batch]
        if len(names) == len(indices) and len(set(names)) == len(names):
            return Labelled(value.array, (*front, *names))
        if any(i.has(Datum) for i in indices):
            return self._picked(Labelled(value.array, front), indices, absent=0.0)
        found = [self._positions(i) for i in indices]
        labels = tuple(dict.fromkeys(x for _, own in found for x in own))
        places = tuple(Labelled(numpy.asarray(p), own).at(labels) for p, own in found)
        where: tuple[Any, ...] = (*(slice(None),) * batch, *places)
        picked = value.array[where]
        if any(numpy.min(p) < 0 for p in places):
            present = numpy.logical_and.reduce(numpy.broadcast_arrays(*(p >= 0 for p in places)))
            picked = numpy.where(present, picked, 0.0)
        shape = (*picked.shape[:batch], *(self.size(x) for x in labels))
        return Labelled(numpy.broadcast_to(picked, shape), (*front, *labels))

    def _kron(self, kron: Kron) -> Labelled:
        (a, mine), (b, theirs) = map(self._positions, kron.args)
        one, other = Labelled(numpy.asarray(a), mine), Labelled(numpy.asarray(b), theirs)
        return mapped(lambda x, y: ((x == y) & (x >= 0)).astype(numpy.float64), [one, other])

    def _sum(self, expr: AxisSum) -> Labelled:
        bounds, body = {expr.bound.name}, expr.summand
        while isinstance(body, AxisSum):
            bounds.add(body.bound.name)
            body = body.summand
        if isinstance(body, sympy.Add):
            return self.value(sympy.Add(*(_summed(a, expr) for a in body.args)))
        factors = [self.value(a) for a in sympy.Mul.make_args(body)]
        present = {x for f in factors for x in f.labels}
        missing = bounds - present
        times = Labelled(numpy.asarray(float(numpy.prod([self.size(x) for x in missing])))) if missing else None
        return contracted([*factors, *([times] if times else [])], bounds & present)

    def _moment(self, moment: Moment) -> Labelled:
        covariances = [self.value(c) for c in moment.covariances]
        values = [self.value(v) for v in moment.values]
        many = [*covariances, *values]
        if self.tables.suspects is not None:
            self.tables.suspects += self._suspects(moment, covariances)

        def function(*arrays: Array) -> Array:
            value, error = evaluated_moment(
                moment, arrays[: len(covariances)], arrays[len(covariances) :], self.tables.constants
            )
            self.tables.error = max(self.tables.error, error)
            return value

        return mapped(function, many)

    def _suspects(self, moment: Moment, covariances: Sequence[Labelled]) -> list[Labelled]:
        """Where a moment has a nearly singular law, but not at the same data."""
        found = nearly_singular(moment, covariances)
        if found is None or not found.labels:  # constants are exactly what they are
            return []
        left, right = self.input[1], self.input[2]
        sides = (self.tables.sides[left - 1], self.tables.sides[right - 1])
        same = same_data(self.program, sides, (_batch(left), _batch(right)), found.labels)
        if same is not None:
            found = Labelled(found.array & ~same.at(found.labels), found.labels)
        return [found] if found.array.any() else []


def _linear_in_draws(expr: Expr) -> bool:
    """Whether means over draws stand in an expression linearly, one in a term."""
    if isinstance(expr, DrawMean) or not expr.has(DrawMean):
        return True
    if isinstance(expr, sympy.Mul) and sum(a.has(DrawMean) for a in expr.args) > 1:
        return False
    if not isinstance(expr, (sympy.Add, sympy.Mul, AxisSum)):
        return False
    return all(_linear_in_draws(a) for a in expr.args if isinstance(a, Expr))


def _summed(addend: Expr, template: AxisSum) -> Expr:
    """One addend under all sums of a template."""
    if isinstance(template.summand, AxisSum):
        addend = _summed(addend, template.summand)
    return AxisSum(addend, template.bound, template.args[2])


def _power(exponent: Expr) -> Any:
    if exponent == 2:
        return numpy.square
    if exponent == -1:
        return lambda x: 1.0 / x
    if exponent == sympy.S.Half:
        return numpy.sqrt
    if exponent == -sympy.S.Half:
        return lambda x: 1.0 / numpy.sqrt(x)
    number = float(exponent)
    return lambda x: numpy.power(x, number)
