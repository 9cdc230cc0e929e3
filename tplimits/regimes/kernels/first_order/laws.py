"""Means of one layer under the covariances of two inputs, each within its error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy
import sympy
from sympy import Expr

from tplimits.arrays import Array
from tplimits.numbers.moments.function import MomentFunction, moment
from tplimits.program.nodes.entries import variable
from tplimits.regimes.kernels.first_order.perceptron import H

#: the preactivation of the other input
G = variable("g")
#: rounding of a closed form, relative
ROUNDED = 4e-15
#: means with bounds of their errors
Measured = list[tuple[Array, Array]]


@dataclass(frozen=True)
class Law:
    """Means under covariances (c,) or (c11, c12, c22): as they are found, or each moved up or down by its error.

    What is measured once is shared by all readings of a law; `signs` decides which way a mean is moved.
    """

    covariances: tuple[Array, ...]
    signs: numpy.random.Generator | None = None
    _measured: dict[Any, Measured] = field(default_factory=dict)

    def moved(self, signs: numpy.random.Generator | None) -> Law:
        """Another reading of what has been measured."""
        return replace(self, signs=signs)

    def single(self, f: Expr, place: int = 0) -> Array:
        """E f(h) of the variance at a place."""
        return self.read(("one", f, place), lambda: [mean_of_one(f)(self.covariances[place])])[0]

    def pair(self, f: Expr, g: Expr) -> Array:
        """E f(h_a) g(h_b)."""
        return self.read(("two", f, g), lambda: [mean_of_pair(f, g)(*self.covariances)])[0]

    def read(self, name: Any, measure: Callable[[], Measured]) -> list[Array]:
        """Means that are measured together, by the name of what they are."""
        if name not in self._measured:
            self._measured[name] = measure()
        return [self._moved(*found) for found in self._measured[name]]

    def way(self) -> int:
        """Which way the rounding of covariances goes."""
        return 0 if self.signs is None else int(self.signs.choice((-1, 1)))

    def _moved(self, value: Array, error: Array) -> Array:
        if self.signs is None:
            return value
        return value + self.signs.choice((-1.0, 1.0), value.shape) * numpy.maximum(error, ROUNDED * abs(value))


@lru_cache(maxsize=512)
def mean_of_one(f: Expr) -> Callable[[Array], tuple[Array, Array]]:
    """E f(h) as a function of the variance."""
    if not f.has(H):
        return lambda c: (numpy.full(c.shape, float(f)), numpy.zeros(c.shape))
    return moment(sympy.expand(f), (H,))


@lru_cache(maxsize=512)
def mean_of_pair(f: Expr, g: Expr) -> Callable[..., tuple[Array, Array]]:
    """E f(h_a) g(h_b) as a function of the covariances."""
    if f == 0 or g == 0:
        return lambda c11, c12, c22: (numpy.zeros(c12.shape), numpy.zeros(c12.shape))
    if not f.has(H) or not g.has(H):
        place = 2 if not f.has(H) else 0
        return lambda *c: mean_of_one(f * g)(c[place])
    return moment_of_pair(f, g)


def moment_of_pair(f: Expr, g: Expr) -> MomentFunction:
    """The same of functions that both read h, with the way it is found."""
    return moment(f * g.xreplace({H: G}), (H, G))
