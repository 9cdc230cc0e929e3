"""A vector, or a scalar, to order 1/n: its value, its derivatives by averages, and the shift of its mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy

from tplimits.arrays import Array
from tplimits.numbers.expansion.nodes import Field, constant, plus


@dataclass(frozen=True)
class Jet:
    """A vector, or a scalar, to order 1/n: `shift` None is zero."""

    value: Field
    slopes: Mapping[int, Field] = field(default_factory=dict)
    shift: Field | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether it is a function of its own neuron alone, the same at every width."""
        return not self.slopes and self.shift is None

    def is_near_zero(self, tolerance: float) -> bool:
        """Whether a scalar is within errors of 0 beside what averages move it by: 1e-31 ⟨x²⟩ is small, and not zero."""
        moved = max((d.size for d in self.slopes.values()), default=1.0)
        return not self.value.dims and abs(float(self.value.values)) < tolerance * min(1.0, moved or 1.0)

    def through(self, image: Callable[[Field], Field]) -> Jet:
        """Its image under a linear map."""
        shift = None if self.shift is None else image(self.shift)
        return Jet(image(self.value), {i: image(d) for i, d in self.slopes.items()}, shift)


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


def stacked_slopes(slopes: Mapping[int, Field]) -> dict[tuple[int, ...], tuple[list[int], Array]]:
    """Derivatives of the same variables in one array, those of each average along its first dimension."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, d in slopes.items():
        groups.setdefault(d.dims, []).append(i)
    return {dims: (found, numpy.stack([slopes[i].values for i in found])) for dims, found in groups.items()}


@dataclass(frozen=True)
class Given:
    """Scalars θ at width n: E θ = value + root/√n + shift/n, Cov(θ, θ′) = covariance/n."""

    value: Array
    root: Array
    shift: Array
    covariance: Array
