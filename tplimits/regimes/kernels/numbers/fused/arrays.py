"""The statements of a recursion on arrays, for calls whose work is less than compiling, and for nearly singular pairs.

Two straight functions of NumPy: quantities of one input each, and the statements for arrays of pairs.  A call
with a few inputs is a hundred array operations, however many layers of bookkeeping stand behind the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from numpy.typing import NDArray
from sympy import Expr

from tplimits.arrays import Array
from tplimits.numbers.moments.determinants import residual_determinant
from tplimits.numbers.moments.function import closed_text
from tplimits.program.nodes.entries import AxisSum
from tplimits.program.nodes.evaluate import evaluate
from tplimits.regimes.kernels.derivation.leaves import Data, Moment, TableEntry, on_first, sided
from tplimits.regimes.kernels.numbers.fused.statements import NotFused, Text
from tplimits.regimes.kernels.numbers.passes.alone import alone
from tplimits.regimes.kernels.numbers.tables.moment import function_of, refuse_underflow

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.kernels.numbers.inputs import Inputs

#: inputs of each side, pair by pair
Places = tuple[NDArray[numpy.intp], ...]
#: numbers of the largest array of a block of pairs
_BLOCK = 1 << 16


class OwnText(Text):
    """Statements of one input with itself: its laws have the angle 0, and only sums over data are read."""

    def _value(self, expr: Expr) -> str:
        if isinstance(expr, TableEntry):
            if expr.indices:
                raise NotFused
            return self.value(sided(self.derivation.tables[expr.table].definition, 1, 1))
        if isinstance(expr, Data):
            return self._gram(expr)
        if not expr.has(Data, TableEntry):
            return super()._value(expr)
        if isinstance(expr, AxisSum) and expr.has(TableEntry, Moment):
            raise NotFused
        return self._computed(expr)

    def _moments(self, found: list[Moment]) -> None:
        for moment in found:
            function = function_of(moment, self.constants) if not moment.values else None
            if function is None or function.route != "closed" or len(set(moment.covariances)) > 1:
                raise NotFused
            variance = self.value(moment.covariances[0])
            self.known[moment] = closed_text(self.writer, function, (variance, variance, variance, "0.0"))
            self.flush()


@dataclass(frozen=True)
class Gram:
    """s · Σ_d x_d x′_d of a data instruction."""

    source: int
    scale: float

    def paired(self, one: Array, other: Array) -> tuple[Array, Array]:
        """The sum and its determinant for rows of two arrays that go together."""
        return self.scale * numpy.einsum("ij,ij->i", one, other), self.scale**2 * residual_determinant(one, other)

    def own(self, inputs: Inputs) -> Array:
        """The sum for inputs with themselves."""
        rows = inputs.arrays[self.source].reshape(inputs.many, -1)
        return self.scale * numpy.einsum("ij,ij->i", rows, rows)


def gram_of(expr: Expr, constants: Mapping[Expr, float], sides: tuple[int, int] = (1, 2)) -> Gram:
    """The Gram matrix between two sides that an expression stands for; NotFused for anything else."""
    scale, rest = 1.0, []
    for factor in sympy.Mul.make_args(expr):
        if factor.has(Data):
            rest.append(factor)
        else:
            scale *= float(evaluate(factor, constants))
    if len(rest) != 1 or not isinstance(rest[0], AxisSum):
        raise NotFused
    body, bounds = rest[0], []
    while isinstance(body, AxisSum):
        bounds.append(body.bound)
        body = body.summand
    powers = (f.as_base_exp() for f in sympy.Mul.make_args(body))  # ‖x‖² is Σ x·x as one power
    data = [
        base for base, many in powers for _ in range(int(many) if many.is_Integer and isinstance(base, Data) else 3)
    ]
    if len(data) != 2 or {f.side for f in data} != set(sides) or data[0].source != data[1].source:
        raise NotFused
    if any(set(f.indices) != set(bounds) for f in data) or data[0].indices != data[1].indices:
        raise NotFused
    return Gram(data[0].source, scale)


@dataclass(frozen=True)
class FusedArrays:
    """What arrays need of a recursion: a function of inputs alone, one of pairs, and what the two read."""

    derivation: KernelTables
    constants: Mapping[Expr, float]
    pair: Callable[..., Any]
    statements: int
    grams: tuple[Gram, ...]
    left: tuple[Expr, ...]
    right: tuple[Expr, ...]
    numbers: tuple[float, ...]

    @cached_property
    def _own(self) -> tuple[Callable[..., Any], tuple[Gram | Expr, ...], tuple[float, ...]] | None:
        text = OwnText(self.derivation, self.constants)
        try:
            kernels = text.kernels(1)
            results = [*(text.value(on_first(e)) for e in (*self.left, *self.right)), *kernels]
        except NotFused:
            return None
        lines = [f"{name} = G[{k}]" for k, name in enumerate(text.grams.values())]
        return _made([*lines, *text.lines], results), tuple(map(self._sum, text.grams)), _numbers(text)

    def _sum(self, expr: Expr) -> Gram | Expr:
        """A sum over the data of one input, as a Gram matrix where it is one."""
        try:
            return gram_of(expr, self.constants, (1, 1))
        except NotFused:
            return expr

    def own(self, inputs: Inputs) -> tuple[list[Array], list[Array], list[Array]]:
        """Rows for the left and the right side, and both kernels of inputs with themselves."""
        if self._own is None:
            found = self._alone((*self.left, *self.right, self.derivation.nngp, self.derivation.ntk), inputs)
        else:
            function, sums, numbers = self._own
            read = [s.own(inputs) if isinstance(s, Gram) else self._alone((s,), inputs)[0] for s in sums]
            found = function(read, [], numbers)
        shape = (inputs.many,)
        shaped = [f if numpy.shape(f) == shape else numpy.broadcast_to(f, shape) for f in found]
        split, end = len(self.left), len(shaped) - 2
        if end:
            refuse_underflow(numpy.array(shaped[:end]))
        return shaped[:split], shaped[split:end], shaped[end:]

    def _alone(self, exprs: tuple[Expr, ...], inputs: Inputs) -> list[Array]:
        return [v.array for v in alone(self.derivation, exprs, inputs, self.constants)]

    def of(
        self, one: Inputs, other: Inputs, rows: tuple[list[Array], list[Array]], places: Places
    ) -> tuple[Array, Array, NDArray[numpy.bool_]]:
        """Both kernels of the pairs (i, j) of `places`, and where they rest on an angle that no rule keeps."""
        found, near = numpy.empty((2, len(places[0]))), numpy.zeros(len(places[0]), dtype=numpy.bool_)
        data = {g.source: tuple(s.arrays[g.source].reshape(s.many, -1) for s in (one, other)) for g in self.grams}
        step = max(1, _BLOCK // max([8, *(x.shape[1] for x, _ in data.values())]))
        for start in range(0, len(near), step):
            part = slice(start, start + step)
            i, j = places[0][part], places[1][part]
            grams = [g.paired(data[g.source][0][i], data[g.source][1][j]) for g in self.grams]
            left, right = [r[i] for r in rows[0]], [r[j] for r in rows[1]]
            values = self.pair([g for g, _ in grams], [d for _, d in grams], self.numbers, left, right)
            found[0, part], found[1, part], near[part] = values
        return found[0], found[1], near


def fused_arrays(derivation: KernelTables, constants: Mapping[Expr, float]) -> FusedArrays:
    """The functions of a recursion; NotFused where it needs arrays with axes."""
    text = Text(derivation, constants)
    results = text.kernels(2)
    lines = [f"{name} = L[{k}]" for k, name in enumerate(text.left.values())]
    lines += [f"{name} = R[{k}]" for k, name in enumerate(text.right.values())]
    lines += [f"{name} = G[{k}]" for k, name in enumerate(text.grams.values())]
    near = " | ".join(f"({m} < 0.0)" for m in text.margins) or "False"
    pair = _made([*lines, *text.determinants.reads, *text.lines], [*results, near])
    grams = tuple(gram_of(e, constants) for e in text.grams)
    sides = tuple(text.left), tuple(text.right)
    return FusedArrays(derivation, constants, pair, len(text.lines), grams, *sides, _numbers(text))


def _numbers(text: Text) -> tuple[float, ...]:
    return tuple(float(evaluate(e, text.constants)) for e in text.numbers)


def _made(lines: list[str], results: list[str]) -> Callable[..., Any]:
    """A function of Grams G, determinants D, numbers P, rows L and R."""
    body = "\n".join(f"    {line}" for line in [*lines, f"return {', '.join(results)}"])
    return _function(f"def row(G, D, P, L=(), R=()):\n{body}\n")


@lru_cache(maxsize=64)
def _function(code: str) -> Callable[..., Any]:
    names: dict[str, Any] = {"numpy": numpy}
    exec(code, names)  # our own text, written above
    return names["row"]
