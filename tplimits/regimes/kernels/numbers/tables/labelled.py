"""Arrays whose dimensions have names: running indices of tables, broadcast and contracted by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array


@dataclass(frozen=True)
class Labelled:
    """An array and the name of each of its dimensions, all different."""

    array: NDArray[Any]
    labels: tuple[str, ...] = ()

    def at(self, order: Sequence[str]) -> NDArray[Any]:
        """The array with its dimensions in an order that has all of them; of length 1 where it lacks one."""
        if tuple(order) == self.labels:
            return self.array
        places = [self.labels.index(x) for x in order if x in self.labels]
        sizes = iter(self.array.shape[p] for p in places)
        return self.array.transpose(places).reshape([next(sizes) if x in self.labels else 1 for x in order])


@dataclass(frozen=True, eq=False)
class Traced:
    """What will be a labelled array: the number of a step on a tape."""

    labels: tuple[str, ...]
    number: int
    tape: Any


def step(labels: Callable[..., tuple[str, ...]]) -> Callable[[Callable[..., Labelled]], Callable[..., Any]]:
    """A function of labelled arrays, its first argument, that is written on a tape where one of them is traced.

    `labels` gives the labels of the result from the same arguments.
    """

    def decorated(function: Callable[..., Labelled]) -> Callable[..., Any]:
        @wraps(function)
        def called(values: Sequence[Any], *fixed: Any) -> Any:
            for value in values:
                if isinstance(value, Traced):
                    return value.tape.recorded(function, tuple(values), fixed, labels(values, *fixed))
            return function(values, *fixed)

        return called

    return decorated


def bare(function: Any) -> Any:
    """What a step on a tape calls: the function below `step`."""
    return function.__wrapped__


def union(values: Iterable[Any]) -> tuple[str, ...]:
    """All labels in order of first appearance, those of inputs first."""
    return tuple(sorted(dict.fromkeys(x for v in values for x in v.labels), key=_is_inner))


def _is_inner(label: str) -> bool:
    return not label.startswith("input ")


def mapped(function: Callable[..., Any], values: Sequence[Any]) -> Any:
    """A function of several arrays, entry by entry."""
    return _mapped(values, function)


@step(lambda values, function: union(values))
def _mapped(values: Sequence[Labelled], function: Callable[..., Any]) -> Labelled:
    order = union(values)
    return Labelled(numpy.asarray(function(*(v.at(order) for v in values))), order)


@step(lambda values, labels: labels)
def renamed(values: Sequence[Labelled], labels: tuple[str, ...]) -> Labelled:
    """The same array with other names for its dimensions."""
    return Labelled(values[0].array, labels)


def averaged(value: Any, label: str) -> Any:
    """The mean over one dimension, if there is one of this name."""
    return _averaged([value], label) if label in value.labels else value


@step(lambda values, label: tuple(x for x in values[0].labels if x != label))
def _averaged(values: Sequence[Labelled], label: str) -> Labelled:
    (value,) = values
    return Labelled(value.array.mean(axis=value.labels.index(label)), tuple(x for x in value.labels if x != label))


@step(lambda factors, over: tuple(x for x in union(factors) if x not in over))
def contracted(factors: Sequence[Labelled], over: Iterable[str]) -> Labelled:
    """The sum over some labels of a product, two factors at a time, by matrix products."""
    over = set(over)
    left = [f for f in factors if f.labels] or [Labelled(numpy.ones(()))]
    scalar = math.prod(f.array[()] for f in factors if not f.labels)
    left = [_summed_alone(f, over, [g for g in left if g is not f]) for f in left]
    while len(left) > 1:
        i, j = _cheapest(left, over)
        rest = [f for k, f in enumerate(left) if k not in (i, j)]
        kept = {x for f in rest for x in f.labels}
        left = [*rest, _pair(left[i], left[j], {x for x in over if x not in kept})]
    (one,) = left
    gone = tuple(i for i, x in enumerate(one.labels) if x in over)
    labels = tuple(x for x in one.labels if x not in over)
    array = one.array.sum(axis=gone) if gone else one.array
    order = tuple(x for x in union(factors) if x not in over)
    return Labelled(Labelled(array * scalar if scalar != 1 else array, labels).at(order), order)


def _summed_alone(factor: Labelled, over: set[str], others: list[Labelled]) -> Labelled:
    mine = {x for x in factor.labels if x in over and all(x not in o.labels for o in others)}
    if not mine:
        return factor
    axes = tuple(i for i, x in enumerate(factor.labels) if x in mine)
    return Labelled(factor.array.sum(axis=axes), tuple(x for x in factor.labels if x not in mine))


def _cheapest(factors: list[Labelled], over: set[str]) -> tuple[int, int]:
    """The pair whose product costs least."""
    sizes = {x: s for f in factors for x, s in zip(f.labels, f.array.shape, strict=True)}
    best, choice = math.inf, (0, 1)
    for i, a in enumerate(factors):
        for j in range(i + 1, len(factors)):
            joint = set(a.labels) | set(factors[j].labels)
            rest = {x for k, f in enumerate(factors) if k not in (i, j) for x in f.labels}
            result = [x for x in joint if x not in over or x in rest]
            cost = math.prod(sizes[x] for x in joint) + 4 * math.prod(sizes[x] for x in result)
            if cost < best:
                best, choice = cost, (i, j)
    return choice


def _pair(a: Labelled, b: Labelled, over: set[str]) -> Labelled:
    """Two factors multiplied and summed over the labels that nothing else has."""
    a, b = _summed_alone(a, over, [b]), _summed_alone(b, over, [a])
    common = [x for x in a.labels if x in b.labels]
    inner = [x for x in common if x in over]
    if not inner:
        return mapped(numpy.multiply, (a, b))
    batch = [x for x in common if x not in over]
    rows = [x for x in a.labels if x not in common]
    columns = [x for x in b.labels if x not in common]
    sizes = {**dict(zip(a.labels, a.array.shape, strict=True)), **dict(zip(b.labels, b.array.shape, strict=True))}

    def block(value: Labelled, first: list[str], last: list[str]) -> Array:
        shape = [sizes[x] for x in batch] + [math.prod(sizes[x] for x in g) for g in (first, last)]
        return numpy.ascontiguousarray(value.at([*batch, *first, *last])).reshape(shape)

    product = block(a, rows, inner) @ block(b, inner, columns)
    labels = (*batch, *rows, *columns)
    return Labelled(product.reshape([sizes[x] for x in labels]), labels)


@step(lambda values, labels, sizes: labels)
def repeated(values: Sequence[Labelled], labels: tuple[str, ...], sizes: Mapping[str, int]) -> Labelled:
    """An array with labels in order; along axes that it lacks it is repeated."""
    array = values[0].at(labels)
    shape = [sizes.get(x, n) for x, n in zip(labels, array.shape, strict=True)]
    return Labelled(numpy.broadcast_to(array, shape), labels)


@step(lambda values, mine, theirs: mine)
def diagonal(values: Sequence[Labelled], mine: tuple[str, ...], theirs: tuple[str, ...]) -> Labelled:
    """Entries at equal places of the two sides."""
    array = values[0].at([*mine, *theirs])
    many, front = len(theirs), len(mine) - len(theirs)
    for k in range(many):  # the diagonal of each pair of axes goes last
        array = numpy.diagonal(array, axis1=front, axis2=front + many - k)
    return Labelled(array, mine)


#: the step that `mapped` writes on a tape
pointwise_step = bare(_mapped)
