"""A vector, or a scalar, to order 1/n: its value, its derivatives by averages, and the shift of its mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce

import numpy

from tplimits.arrays import Array
from tplimits.numbers.expansion.fields import STACKED, Field, constant, mapped, plus, times


@dataclass(frozen=True, eq=False)
class Slopes(Mapping[int, Field]):
    """Derivatives by averages, of which a program has hundreds: those of the same variables are one array.

    `stacks` tells which averages the first dimension of an array stands for, in order.  A derivative may have parts in
    several stacks, and is their sum: what averages do with derivatives is linear in them.
    """

    stacks: tuple[tuple[tuple[int, ...], Field], ...] = ()

    @classmethod
    def of(cls, fields: Mapping[int, Field]) -> Slopes:
        """From derivatives one by one."""
        return _gathered(((i,), Field((STACKED, *d.dims), d.values[None])) for i, d in fields.items())

    def through(self, image: Callable[[Field], Field]) -> Slopes:
        """Their images under a linear map that leaves the first dimension alone."""
        return _gathered((rows, image(stack)) for rows, stack in self.stacks)

    def times(self, factor: Field) -> Slopes:
        """With a factor."""
        return self.through(lambda stack: times(stack, factor))

    def __getitem__(self, average: int) -> Field:
        return self._fields[average]

    def __iter__(self) -> Iterator[int]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __bool__(self) -> bool:
        return bool(self.stacks)

    @cached_property
    def _fields(self) -> dict[int, Field]:
        found: dict[int, Field] = {}
        for rows, stack in self.stacks:
            for i, values in zip(rows, stack.values, strict=True):
                found[i] = summed(found.get(i), Field(stack.dims[1:], values))
        return found


def all_slopes(several: Iterable[Slopes]) -> Slopes:
    """Their sum."""
    return _gathered(stack for slopes in several for stack in slopes.stacks)


def _gathered(parts: Iterable[tuple[tuple[int, ...], Field]]) -> Slopes:
    """Stacks of which each has other variables."""
    groups: dict[tuple[int, ...], list[tuple[tuple[int, ...], Field]]] = {}
    for rows, stack in parts:
        groups.setdefault(stack.dims, []).append((rows, stack))
    return Slopes(tuple(map(_joined, groups.values())))


def _joined(parts: list[tuple[tuple[int, ...], Field]]) -> tuple[tuple[int, ...], Field]:
    """One stack of several of the same variables."""
    rows, first = parts[0]
    if len(parts) == 1:
        return rows, first
    if all(mine == rows for mine, _ in parts):
        return rows, reduce(lambda a, b: mapped(numpy.add, a, b), (stack for _, stack in parts))
    place = {i: k for k, i in enumerate(sorted({i for mine, _ in parts for i in mine}))}
    values = numpy.zeros((len(place), *first.values.shape[1:]))
    for mine, stack in parts:
        at = [place[i] for i in mine]
        # most hold all averages up to some one: a view is added to in place
        values[slice(at[0], at[-1] + 1) if at[-1] - at[0] == len(at) - 1 else at] += stack.values
    return tuple(place), Field(first.dims, values)


@dataclass(frozen=True)
class Jet:
    """A vector, or a scalar, to order 1/n: `shift` None is zero."""

    value: Field
    slopes: Slopes = field(default_factory=Slopes)
    shift: Field | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether it is a function of its own neuron alone, the same at every width."""
        return not self.slopes and self.shift is None

    def is_near_zero(self, tolerance: float) -> bool:
        """Whether a scalar is within errors of 0 beside what averages move it by.

        1e-31 ⟨x²⟩ is small, and not zero; 1000 (s − 1) of an s → 1 is off 0 by a thousand times the error of s.
        """
        if self.value.dims:
            return False
        moved = max((stack.size for _, stack in self.slopes.stacks), default=1.0)
        return abs(float(self.value.values)) < tolerance * (moved or 1.0)

    def through(self, image: Callable[[Field], Field]) -> Jet:
        """Its image under a linear map."""
        shift = None if self.shift is None else image(self.shift)
        return Jet(image(self.value), self.slopes.through(image), shift)


def number(value: float) -> Jet:
    """A constant."""
    return Jet(constant(value))


def power_of(a: Array, power: float) -> Array:
    """a^power, 0 where a is 0."""
    silent = a == 0
    return numpy.where(silent, 0.0, numpy.power(numpy.where(silent, 1.0, a), power))


def summed(a: Field | None, b: Field) -> Field:
    """A sum, of which the first part may be nothing."""
    found = plus(a, b)
    assert found is not None
    return found


@dataclass(frozen=True)
class Given:
    """Scalars θ at width n: E θ = value + root/√n + shift/n, Cov(θ, θ′) = covariance/n."""

    value: Array
    root: Array
    shift: Array
    covariance: Array
