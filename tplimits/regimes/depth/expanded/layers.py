"""Blocks at given numbers: what they do to the law of a covariance, one after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr, Rational, S, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, NoLimitError
from tplimits.numbers.expansion.covariances import Layer, fixed
from tplimits.numbers.expansion.tables import numbers_of
from tplimits.regimes.depth.algebra.expansions import ARGUMENT, at_point
from tplimits.regimes.depth.algebra.laurent import laurent
from tplimits.regimes.depth.algebra.products import EPS
from tplimits.regimes.depth.derivation.scalars.expected import mean_series

if TYPE_CHECKING:
    from tplimits.numbers.expansion.jets import Given
    from tplimits.program.nodes.program import Program

#: powers of ε = n^(−1/2) that means of a layer are wanted to
_ORDER = 2


class Written:
    """The series of functions of one block (`numbers.expansion.settled.Series`)."""

    argument = ARGUMENT

    def __init__(self) -> None:
        self._powers: dict[tuple[Expr, int], tuple[Mapping[tuple[Rational, bool], Expr], bool]] = {}
        self._widths: dict[Expr, Mapping[int, Expr]] = {}

    def at_zero(self, function: Expr, most: int) -> tuple[Mapping[tuple[Rational, bool], Expr], bool]:
        """Coefficients of |y|^p sgn(y)^s by (p, s); whether they tell the function at 0."""
        key = function, most
        if key not in self._powers:
            positive = {w: sympy.Dummy(w.name, positive=True) for w in function.free_symbols - {ARGUMENT}}
            back = {d: w for w, d in positive.items()}
            found = at_point(function.xreplace(positive), S.Zero, most)
            self._powers[key] = {k: c.xreplace(back) for k, c in found.terms.items()}, found.off == 0
        return self._powers[key]

    def in_widths(self, expr: Expr, widths: Mapping[Symbol, float]) -> Mapping[int, Expr]:
        """Coefficients of n^(−k/2)."""
        if expr not in self._widths:
            roots = {w: sympy.nsimplify(ratio, rational=True) * EPS**-2 for w, ratio in widths.items()}
            found = laurent(expr.xreplace(roots), EPS, _ORDER, mean_series)
            if found is None:
                raise NoLimitError(f"`{expr}` has no expansion in whole powers of n^(−1/2).")
            self._widths[expr] = dict(found.terms)
        return self._widths[expr]


#: distances of nodes, and nodes of variables that enter through polynomials, from the coarsest
RESOLUTIONS = ((0.5, 3), (0.42, 4), (0.34, 6), (0.27, 8), (0.2, 8), (0.14, 10), (0.1, 10))
#: two resolutions agree up to this, beside 1
_AGREED = 1e-9


@dataclass(frozen=True)
class Layers:
    """A block, or the blocks of a stack, at given numbers; `resolution` is a place in `RESOLUTIONS`."""

    blocks: tuple[tuple[Program, Any], ...]
    resolution: int = 0

    @classmethod
    def at(cls, program: Program, m: int, constants: Mapping[str, Any], ratios: Mapping[str, float] | None) -> Layers:
        """With numbers put in for m tokens; EvaluationError where one is missing."""
        found = []
        # blocks of a stack follow one another as one layer
        for part in program.parts or (program,):
            assert part.state is not None
            tokens = part[part.state].axes[0]
            sizes = {part.root_axis(tokens): m}
            given = {k: v for k, v in constants.items() if k in part.constants}
            sizes |= {k: v for k, v in constants.items() if k in part.known.axes}
            widths = {w: (ratios or {}).get(w, 1.0) for w in part.other_widths}
            found.append(numbers_of(part.released.bind(**sizes), given, widths))
        return cls(tuple(found))

    @cached_property
    def _layers(self) -> tuple[Layer, ...]:
        step, few = RESOLUTIONS[self.resolution]
        return tuple(Layer(program, numbers, step, few, Written()) for program, numbers in self.blocks)

    def image(self, V: Array) -> Array:
        """M(V)."""
        for layer in self._layers:
            V = layer.image(V)
        return V

    def moved(self, law: Given) -> tuple[Given, Array]:
        """The law of V′ from that of V, and DM, entries a ≤ b in row order."""
        key = b"".join(part.tobytes() for part in (law.value, law.root, law.shift, law.covariance))
        if key not in self._last:  # what attracts V is asked at it, and coefficients there again
            found = self._moved(law)
            self._last.clear()
            self._last[key] = found
        return self._last[key]

    @cached_property
    def _last(self) -> dict[bytes, tuple[Given, Array]]:
        """The last law that was moved."""
        return {}

    def _moved(self, law: Given) -> tuple[Given, Array]:
        derivative = numpy.eye(len(law.value))
        for layer in self._layers:
            law, own = layer.moved(law)
            # the chain rule, last block on the left
            derivative = own @ derivative
        return law, derivative

    def resolved(self, V: Array) -> tuple[Layers, float]:
        """The same at the first resolution that the next one confirms at V, and how far they are apart."""
        known = self._numbers(V)
        for place in range(self.resolution, len(RESOLUTIONS) - 1):
            finer = Layers(self.blocks, place + 1)
            numbers = finer._numbers(V)
            off = float(numpy.abs(numbers - known).max())
            # the coarser one is kept: agreement with a finer one is the evidence for it, and it is the quicker one
            if off <= _AGREED * max(1.0, float(numpy.abs(known).max())):
                return Layers(self.blocks, place), off
            known = numbers
        raise EvaluationError(
            f"`{self.blocks[0][0].name}`: two resolutions of the nodes differ by {off:.2g}: functions that are no "
            "polynomials of such a degree, or kinks that are not met."
        )

    def _numbers(self, V: Array) -> Array:
        law, derivative = self.moved(fixed(V))
        # everything that coefficients are made of: a mean may have converged where its derivative has not
        parts = (law.value, law.root, law.shift, law.covariance, derivative)
        return numpy.concatenate([p.ravel() for p in parts])
