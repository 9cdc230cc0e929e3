"""Nodes of base variables: what a neuron is made of, with weights.

The nodes of a variable may depend on earlier ones, its parents: there they are divided where a kink of the program
lies.  At such a place stands one more node of hardly any weight, on which Dirac's delta is a number.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.expansion.fields import MOST_ENTRIES, STACKED, Field, TooLarge, aligned, constant, times, union
from tplimits.program.nodes.rules import density, hermite, legendre, panels

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


#: what a node on a kink weighs beside the density there; the delta is 1 over this
SLIGHT = 1e-13
#: normal variables beyond this many deviations count for nothing in double precision, times powers of them
_REACH = 9.0
#: nodes of Hermite's, of which polynomials never take so many: weights of some hundreds are no numbers
_MOST_HERMITE = 40
#: nodes of Legendre's
_MOST_LEGENDRE = 128


@dataclass(frozen=True)
class Variable:
    """One base variable: its nodes and weights, functions of the variables in `parents`; `axis` is of its neurons."""

    number: int
    axis: str
    parents: tuple[int, ...]
    nodes: Array
    weights: Array
    #: how many of the last nodes stand on kinks
    marks: int = 0

    @property
    def dims(self) -> tuple[int, ...]:
        """What its nodes depend on, itself last."""
        return (*self.parents, self.number)

    @property
    def is_sign(self) -> bool:
        """Whether it is ±1 and has no density: nothing crosses 0 between its two nodes."""
        return self.nodes.shape[-1] == 2


@dataclass(frozen=True)
class Split(Exception):
    """A variable has to be divided at a place: a field of earlier variables."""

    number: int
    place: Field


#: numbers of variables of a second neuron, and of means over variables that no neuron has, begin here
OTHER, APART = 10_000, 1_000_000


def moved(one: Field, by: int) -> Field:
    """The same function of the variables of another neuron."""
    return Field(tuple(d if d == STACKED else d + by for d in one.dims), one.values)


@dataclass(frozen=True)
class Moved(Exception):
    """A place where a variable is divided is to be moved, for it was not exact: what vanishes there had a `value`."""

    number: int
    place: Field
    mark: int
    value: Field


@dataclass(frozen=True)
class Rough(Exception):
    """Variables enter through functions that are no polynomials: few nodes are not enough for them."""

    numbers: frozenset[int]


@dataclass(frozen=True)
class Singular(Exception):
    """Variables have roots or poles at the places where they are divided: nodes are to crowd there."""

    numbers: frozenset[int]


@dataclass
class Frame:
    """The variables of one pass; `step` is the distance of nodes, `splits` where variables are divided.

    Variables that are not `rough` enter through polynomials, which a few nodes of Hermite's integrate exactly: `few` of
    them, or as many as polynomials of most programs take.
    """

    #: whether nodes are those of a law, with weights; neurons of drawn networks are not
    of_law: ClassVar[bool] = True
    step: float
    rough: frozenset[int] = frozenset()
    splits: dict[int, list[Field]] = field(default_factory=dict)
    variables: dict[int, Variable] = field(default_factory=dict)
    #: whether variables are divided at kinks
    divides: bool = True
    few: int | None = None
    #: variables with roots or poles at the places where they are divided
    graded: frozenset[int] = frozenset()
    #: the instruction that is read
    where: str = ""
    #: whether functions are taken over cells between nodes, and the line of one that bends within them
    by_cells: bool = False
    bends: str = ""
    #: the line of a function with a peak that no node is on
    misses: str = ""
    #: of each variable, the marks that a kink has been found to lie on
    taken: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    _joint: dict[tuple[int, ...], Field] = field(default_factory=dict)

    @property
    def tolerance(self) -> float:
        """What counts as zero beside 1: errors of means on these nodes."""
        return (1e-6 if self.step <= 0.42 else 1e-4) if self.divides else 1e-2

    def normal(self, axis: str) -> Field:
        """A standard normal variable that nothing before depends on."""
        return self._made(sum(v < OTHER for v in self.variables), axis)

    def apart(self) -> Field:
        """A standard normal variable that no neuron has."""
        return self._made(APART + sum(v >= APART for v in self.variables), "")

    def _made(self, number: int, axis: str) -> Field:
        places = self.splits.get(number, [])
        if places:
            made = _divided(number, axis, places, self.step, number in self.graded)
        elif number in self.rough or number >= APART:
            made = _even(number, axis, self.step)
        else:
            count = self.few or min(8 + round(1 / self.step), _MOST_HERMITE)
            made = Variable(number, axis, (), *hermite(count))
        self.variables[number] = made
        return Field(made.dims, made.nodes)

    def signs(self, axis: str) -> Field:
        """±1 with probability ½ each."""
        number = sum(v < OTHER for v in self.variables)
        made = Variable(number, axis, (), numpy.array([-1.0, 1.0]), numpy.array([0.5, 0.5]))
        self.variables[number] = made
        return Field(made.dims, made.nodes)

    def other(self, one: Field) -> Field:
        """The same function of a second neuron's variables."""
        for d in one.dims:
            if d != STACKED and d + OTHER not in self.variables:
                v = self.variables[d]
                parents = tuple(p + OTHER for p in v.parents)
                self.variables[d + OTHER] = Variable(d + OTHER, v.axis, parents, v.nodes, v.weights, v.marks)
        return moved(one, OTHER)

    def enters(self, one: Field) -> None:
        """A function that is no polynomial reads a field."""
        found = frozenset(d % OTHER for d in one.dims if d < APART) - self.rough
        # the pass begins again with more nodes for these; on drawn neurons there is nothing to refine
        if self.divides and found:
            raise Rough(found)

    def grades(self, one: Field) -> None:
        """What has a root or a pole where a field is 0 reads it: the last of its variables is divided there."""
        if one.dims and one.dims[-1] % OTHER not in self.graded:
            raise Singular(frozenset({one.dims[-1] % OTHER}))

    def mean(self, one: Field, over: Iterable[int] | None = None) -> Field:
        """The mean over some variables, or over all of them; what stays must not be divided along what goes."""
        gone = set(one.dims) if over is None else set(one.dims) & set(over)
        dims, values = list(one.dims), one.values
        for d in sorted(gone, reverse=True):
            place = dims.index(d)
            weights = self.variables[d].weights
            if weights.ndim == 1:
                values = numpy.moveaxis(values, place, -1)
                values = (values.reshape(-1, len(weights)) @ weights).reshape(values.shape[:-1])
            else:
                # weights that depend on parents: these have to be there still, so later variables go first
                values = (values * aligned(Field(self.variables[d].dims, weights), tuple(dims))).sum(axis=place)
            del dims[place]
        return Field(tuple(dims), numpy.asarray(values))

    def expectation(self, one: Field) -> float:
        """E of a field."""
        return float(self.mean(one).values)

    def onto(self, one: Field, dims: Iterable[int]) -> Field:
        """The mean given some variables, and their parents."""
        return self.mean(one, set(one.dims) - self.closed(dims))

    def closed(self, dims: Iterable[int]) -> set[int]:
        """With the parents of all; what depends on a variable depends on its parents, too."""
        return set(dims).union(*(self.variables[d].parents for d in dims))

    def weight(self, dims: tuple[int, ...]) -> Field:
        """The joint weights of nodes of some variables, parents among them."""
        if dims not in self._joint:
            found = constant(1.0)
            for d in dims:
                found = times(found, Field(self.variables[d].dims, self.variables[d].weights))
            self._joint[dims] = found
        return self._joint[dims]


def _even(number: int, axis: str, step: float) -> Variable:
    """Equidistant nodes: the error for a function with poles at ±iπ/2 is exp(−π²/step)."""
    half = math.ceil(_REACH / step)
    nodes: Array = numpy.arange(-half, half + 1, dtype=numpy.float64) * step
    return Variable(number, axis, (), nodes, step * density(nodes))


def _divided(number: int, axis: str, places: Sequence[Field], step: float, graded: bool) -> Variable:
    """Gauss–Legendre nodes between places, crowded there if `graded`, and one of hardly any weight on each place."""
    parents = union(*places)
    shape = numpy.broadcast_shapes(*(aligned(p, parents).shape for p in places))
    marks = numpy.stack([numpy.broadcast_to(aligned(p, parents), shape) for p in places], axis=-1)
    # places beyond reach make pieces of length 0, so that every place of the parents has equally many nodes
    ends = numpy.clip(numpy.sort(marks, axis=-1), -_REACH, _REACH)
    edge = numpy.full((*shape, 1), _REACH)
    ends = numpy.concatenate([-edge, ends, edge], axis=-1)
    # so many nodes are found in no time, of pieces of each piece
    count = math.ceil(0.7 * _REACH / step) + 10
    within = math.ceil(count / _MOST_LEGENDRE)
    x, w = legendre(math.ceil(count / within))
    rule = (numpy.arange(1 - within, within, 2)[:, None] + x).ravel() / within, numpy.tile(w, within) / within
    nodes, weights = (part.reshape(*shape, -1) for part in panels(ends, _crowded(*rule) if graded else rule))
    weights = weights * density(nodes)
    nodes = numpy.concatenate([nodes, marks], axis=-1)
    if nodes.size > MOST_ENTRIES:
        raise TooLarge
    # too light to move a mean, heavy enough that 1/SLIGHT does not overflow
    weights = numpy.concatenate([weights, SLIGHT * density(marks)], axis=-1)
    if not numpy.isfinite(nodes).all():
        raise EvaluationError("a kink of the program is at no finite place.")
    return Variable(number, axis, parents, nodes, weights, len(places))


def _crowded(x: Array, weights: Array) -> tuple[Array, Array]:
    """A rule on (−1, 1) for functions with roots or poles at the ends: those of s³ are smooth in s.

    2 (10 t³ − 15 t⁴ + 6 t⁵) − 1 for t = (1 + x)/2
    """
    return x * (15 - 10 * x**2 + 3 * x**4) / 8, weights * 15 * (1 - x**2) ** 2 / 8
