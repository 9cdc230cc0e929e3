"""Means over Gaussian scalars of order 1: the drift of a block whose weights F(S) are random at order 1.

b holds E[F_αν F_βκ] V_νκ with S Gaussian given V.  Functions of one entry of S have means by quadrature (`single`).
For others all entries are drawn together, S = Z·root(Cov), with Z from scrambled Sobol points through the normal
quantile: independent scramblings tell the error.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy
from sympy import Expr, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.program.nodes.branches import SIDES
from tplimits.program.nodes.entries import constant_symbol, size_symbol
from tplimits.program.nodes.evaluate import with_differences
from tplimits.program.parts import found
from tplimits.regimes.depth.algebra.arrays import at_indices
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.algebra.products import free_index
from tplimits.regimes.depth.derivation.scalars.written import read_axes
from tplimits.regimes.depth.numbers import covariance
from tplimits.regimes.depth.numbers.directions import directions, is_flat
from tplimits.regimes.depth.numbers.draws import all_apart, draws, insist_on_met, insist_on_seen
from tplimits.regimes.depth.numbers.fields import Field
from tplimits.regimes.depth.numbers.paths import REPLICATES, Estimate, estimate
from tplimits.regimes.depth.numbers.single import Single, mean, singles

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.depth.algebra.products import Factors
    from tplimits.regimes.depth.derivation.block import BlockLimit


class Scalars(NamedTuple):
    """Terms with weights of one program, these as functions of scalars, and the law and directions of the scalars."""

    form: Form
    program: Program
    weights: Mapping[str, tuple[Expr, tuple[Symbol, ...]]]
    shapes: Mapping[int, tuple[int, ...]]
    law: Array
    steep: Array | None


@dataclass(frozen=True)
class Drift:
    """The drift of a limit with weights of order 1, at given numbers."""

    limit: BlockLimit
    values: Mapping[Symbol, float]
    m: int
    #: for many V: few points at each
    quick: bool = False

    def __post_init__(self) -> None:
        for weight in self.limit.weights.values():
            constants = set(map(constant_symbol, weight.program.constants))
            covariance.insist_on_values(constants & weight.function.free_symbols, self.values)

    def at(self, V: Array) -> Estimate:
        """b at one covariance matrix, with its standard error."""
        known, drawn = self._known(V)
        if not drawn:
            return Estimate(known, numpy.zeros_like(known))
        return estimate(numpy.array([known + one for one in self._drawn(drawn, V, range(REPLICATES))]))

    def of_replicate(self, V: Array, replicate: int) -> Array:
        """b by the points of one scrambling."""
        known, drawn = self._known(V)
        return known + next(self._drawn(drawn, V, [replicate])) if drawn else known

    def finite_at(self, V: Array) -> Estimate:
        """The same; EvaluationError where functions of the draws are too large for numbers."""
        with numpy.errstate(over="ignore", invalid="ignore", divide="ignore"):
            found = self.at(V)
        if not numpy.isfinite(found.value).all():
            raise EvaluationError(
                "functions of logits of order 1 overflow at this V, or divide by a token that is zero: scale V or the "
                "logits down."
            )
        return found

    @cached_property
    def singles(self) -> dict[str, tuple[Single, ...] | None]:
        """The weights that are sums of functions of one scalar each, as these."""
        return {label: singles(weight) for label, weight in self.limit.weights.items()}

    @property
    def is_drawn(self) -> bool:
        """Whether terms are left to draws, as far as their form tells."""
        weights = ([f[0] for f in factors if f[0][0] == "Y"] for factors in self.limit.drift.terms)
        return any(not self._is_single(labels) for labels in weights)

    def _is_single(self, labels: Sequence[str]) -> bool:
        return len(labels) <= 2 and all(self.singles[label] is not None for label in labels)

    def _known(self, V: Array) -> tuple[Array, Form]:
        """The terms of which all is known without draws, at V, and those that are left."""
        plain: dict[Factors, Expr] = {}
        left: dict[Factors, Expr] = {}
        found: dict[str, Array] = {}
        for factors, c in self.limit.drift.terms.items():
            weights = [f for f in factors if f[0][0] == "Y"]
            if not weights:
                plain[factors] = c
                continue
            label = "E|" + "".join(f[0] for f in weights)
            mean = found[label] if label in found else self._mean([f[0] for f in weights], V)
            if mean is None:
                left[factors] = c
                continue
            found[label] = mean
            rest = tuple(f for f in factors if f not in weights)
            plain[(*rest, (label, tuple(i for f in weights for i in f[1]), 0))] = c
        known = covariance.contracted(Form(plain), V, self.values, self.limit.arrays, 2, found)
        return numpy.asarray(known), Form(left)

    def _mean(self, labels: Sequence[str], V: Array) -> Array | None:
        if not self._is_single(labels):
            return None
        program = self.limit.weights[labels[0]].program
        law = self.limit.laws[program.name]

        def at(first: int, second: int) -> Array:
            axes = (*read_axes(program, first), *read_axes(program, second))
            return self._covariance(law[first, second], V, tuple(self._size(program, a) for a in axes))

        total, values = numpy.zeros(()), {**self.values, **self._sizes(program)}
        for parts in itertools.product(*(w for w in map(self.singles.get, labels) if w is not None)):
            found = mean(parts, at, values)
            if found is None:
                return None
            total = total + found
        return total

    def _drawn(self, form: Form, V: Array, replicates: Iterable[int]) -> Iterator[Array]:
        """A form by the points of each of several scramblings."""
        # one draw for all weights of a program: factors of one term are random together
        laws = [self._scalars(own, V) for own in self._by_program(form)]
        for replicate in replicates:
            yield sum((self._mean_of(scalars, V, replicate) for scalars in laws), numpy.zeros((self.m, self.m)))

    def _by_program(self, form: Form) -> list[Form]:
        """The terms whose weights are those of one program, for every program."""
        names = {label: weight.program.name for label, weight in self.limit.weights.items()}
        found: dict[str, dict[Factors, Expr]] = {}
        for factors, c in form.terms.items():
            found.setdefault(next(names[f[0]] for f in factors if f[0] in names), {})[factors] = c
        return [Form(terms) for terms in found.values()]

    def _scalars(self, form: Form, V: Array) -> Scalars:
        """What the terms of one program are averaged over."""
        read = sorted({f[0] for factors in form.terms for f in factors} & self.limit.weights.keys())
        program = self.limit.weights[read[0]].program
        shapes, law = self._law(program, V)
        middle = self._field(program, {p: numpy.zeros((1, *s)) for p, s in shapes.items()}, V)
        weights = {label: self._written[label] for label in read}
        terms = ([(f[0], f[1]) for f in factors if f[0] in weights] for factors in form.terms)
        return Scalars(form, program, weights, shapes, law, directions(middle, law, weights, terms))

    @cached_property
    def _written(self) -> dict[str, tuple[Expr, tuple[Symbol, ...]]]:
        """The weights as they are evaluated, and their indices."""
        return {label: (with_differences(w.function), w.axes) for label, w in self.limit.weights.items()}

    def _mean_of(self, scalars: Scalars, V: Array, replicate: int) -> Array:
        """The terms of one program by the points of one scrambling."""
        counts, drawn = None, dict[int, Array]()
        if scalars.shapes:  # others are functions of V alone
            points, counts = draws(scalars.law, scalars.steep, replicate, self.quick)
            parts = numpy.split(points, numpy.cumsum([math.prod(s) for s in scalars.shapes.values()])[:-1], axis=1)
            drawn = {p: x.reshape(-1, *s) for (p, s), x in zip(scalars.shapes.items(), parts, strict=True)}
        field = self._field(scalars.program, drawn, V)
        known = dict(self.limit.arrays)
        for label, (function, axes) in scalars.weights.items():
            array, own = field.of(function)
            assert set(axes) <= set(own)
            known[label] = array.transpose(0, *(1 + own.index(a) for a in axes))
            if scalars.steep is None and not is_flat(function, scalars.program.state):
                insist_on_seen(known[label])
            # a mask is 0 at some tokens, a gate that is hardly ever open at all of them
            if not self.quick and scalars.shapes and found(function, *SIDES) and all_apart(scalars.law):
                insist_on_met(known[label])
        return covariance.means(scalars.form, V, self.values, known, counts)

    def _size(self, program: Program, axis: str) -> int:
        size = program.size(axis)
        if size is not None:
            return int(size)
        assert program.state is not None
        root = program.root_axis(axis)
        if root == program.root_axis(program[program.state].axes[0]):
            return self.m
        if size_symbol(root) not in self.values:
            raise EvaluationError(f"the axis `{root}` has no size: give {root}=….")
        return int(self.values[size_symbol(root)])

    def _sizes(self, program: Program) -> dict[Expr, float]:
        known = (a for a in program.all_axes if program.size(a) is None)
        return {size_symbol(a): float(self._size(program, a)) for a in known}

    def _law(self, program: Program, V: Array) -> tuple[dict[int, tuple[int, ...]], Array]:
        """The shapes of √n times the averages at all indices, and the covariance of all of them together."""
        law = self.limit.laws[program.name]
        shapes = {p: tuple(self._size(program, a) for a in read_axes(program, p)) for p in sorted({a for a, _ in law})}
        blocks = [
            [self._covariance(law[p, q], V, (*a, *b)).reshape(math.prod(a), -1) for q, b in shapes.items()]
            for p, a in shapes.items()
        ]
        return shapes, numpy.block(blocks) if blocks else numpy.zeros((0, 0))

    def _covariance(self, form: Form, V: Array, shape: tuple[int, ...]) -> Array:
        total, free = numpy.zeros(shape), tuple(map(free_index, range(len(shape))))
        known = {"V": V, **covariance.kernels(V), **self.limit.arrays}
        for factors, number in zip(form.terms, covariance.numbers(form, self.values), strict=True):
            # what is 1 where two indices are the same has the size of these: tokens, heads
            sized = [(f"I{shape[free.index(at[0])]}" if n == "I" else n, at, copy) for n, at, copy in factors]
            known |= {n: numpy.eye(int(n[1:])) for n, _, _ in sized if n[0] == "I"}
            for label in {n for n, _, _ in sized} - known.keys():
                known[label] = covariance.gaussian_mean(label, V, self.values, self.limit.arrays)
            total += at_indices(tuple(sized), known.__getitem__, free, number)
        return total

    def _field(self, program: Program, scalars: Mapping[int, Array], V: Array) -> Field:
        values = {**self.values, **self._sizes(program)}
        return Field(program, values, partial(self._size, program), scalars, V)
