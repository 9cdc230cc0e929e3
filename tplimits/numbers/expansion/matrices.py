"""A matrix by what it was applied to, exactly in law at every width (Bolthausen's conditioning).

With orthonormal q_i, W q_i = z_i and p_j, Wᵀ p_j = y_j known, both by averages at finite width, a product W x is

    c_i = Avg(q_i x),   N = Avg(x²) − Σ c_i²,   q = (x − Σ c_i q_i)/√N
    z = g − Σ_j p_j Avg(p_j g) + (n_in/n_out) Σ_j p_j Avg(y_j q),   W x = Σ c_i z_i + √N z

with g fresh and normal: of variance 1 for W, n_out/n_in for Wᵀ, whose factor is n_out/n_in.  In the limit
Avg(p_j g) is 0 and norms are numbers; here both are averages like others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy

from tplimits.numbers.expansion.averages import Averages, Jet, number
from tplimits.numbers.expansion.nodes import Field, mapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from tplimits.program.nodes.evaluate import Array


@dataclass
class _Side:
    """One orientation: orthonormal vectors it was applied to, and their images."""

    inputs: list[Jet] = field(default_factory=list)
    images: list[Jet] = field(default_factory=list)


@dataclass
class Matrix:
    """W of rows × columns, entries of variance 1/columns, with what is known of it; `name` is for labels.

    `is_new(number)` says of the direction number `number` of an orientation whether it exists at finite width.
    """

    name: str
    rows: str
    columns: str
    sides: dict[bool, _Side] = field(default_factory=lambda: {False: _Side(), True: _Side()})

    def apply(
        self, averages: Averages, x: Jet, transposed: bool, name: str, is_new: Callable[[Field, Field], bool]
    ) -> Jet:
        """W x, or Wᵀ x; `is_new(N, ⟨x|x⟩)` tells whether x has a part beyond the vectors before."""
        target, source = (self.columns, self.rows) if transposed else (self.rows, self.columns)
        side, label = self.sides[transposed], self.name + ("ᵀ" if transposed else "")
        minus = [averages.average(averages.product(q, x), source, f"⟨·|{name}⟩ in {label}") for q in side.inputs]
        square = averages.average(averages.product(x, x), source, f"⟨{name}|{name}⟩ in {label}")
        rest = averages.sum(square, *(averages.scaled(averages.product(c, c), -1.0) for c in minus))
        known = [averages.product(c, z) for c, z in zip(minus, side.images, strict=True)]
        if not is_new(rest.value, square.value):
            return averages.sum(*known) if known else number(0.0)
        length = root_of(averages, rest, 0.5)
        beside = averages.sum(
            x, *(averages.scaled(averages.product(c, q), -1.0) for c, q in zip(minus, side.inputs, strict=True))
        )
        q = averages.product(root_of(averages, rest, -0.5), beside)
        z = self._image(averages, q, transposed, (source, target), name)
        side.inputs.append(q)
        side.images.append(z)
        return averages.sum(*known, averages.product(length, z))

    def _image(self, averages: Averages, q: Jet, transposed: bool, axes: tuple[str, str], name: str) -> Jet:
        """W q for a new direction."""
        source, target = axes
        other, label = self.sides[not transposed], self.name + ("ᵀ" if transposed else "")
        ratio = averages.ratios[source] / averages.ratios[target]
        g = averages.frame.normal(target)
        if transposed:
            g = mapped(lambda v: v * math.sqrt(averages.ratios[self.rows] / averages.ratios[self.columns]), g)
        total = fresh = Jet(g)
        for p, y in zip(other.inputs, other.images, strict=True):
            seen = averages.average(averages.product(p, fresh), target, f"fresh part of {label}{name}")
            back = averages.average(averages.product(y, q), source, f"{label} back on {name}")
            total = averages.sum(
                total,
                averages.scaled(averages.product(p, seen), -1.0),
                averages.scaled(averages.product(p, back), ratio),
            )
        return total


def root_of(averages: Averages, x: Jet, power: float) -> Jet:
    """A power of a positive scalar; 0 at 0, for a drawn network whose neurons all happen to be silent."""
    v = x.value
    return averages.function(
        x,
        mapped(lambda a: _power(a, power), v),
        mapped(lambda a: power * _power(a, power - 1), v),
        mapped(lambda a: power * (power - 1) * _power(a, power - 2), v),
    )


def _power(a: Array, power: float) -> Array:
    """a^power, 0 where a is 0."""
    silent = a == 0
    found: Array = numpy.where(silent, 0.0, numpy.power(numpy.where(silent, 1.0, a), power))
    return found
