"""Expressions with all maps written out, over what a weight of order 1 reads: averages, and entries of dense layers.

An average is S/√n, S of order 1 under the average's own entry.  Of vectors that are linear in the state, W acts on each
token: W Σ_k c_k x_k = Σ_k c_k (W x)_k, whatever scalars c_k are, and (W x)_k stands under the entry of W itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sympy import Add, Expr, Integer, Mul, Rational, Symbol, sqrt

from tplimits.program.nodes.entries import (
    ArrayEntry,
    AxisSum,
    Entry,
    N,
    axis_symbol,
    reads_vectors,
    width_symbol,
)
from tplimits.program.nodes.kinds import Avg, InitialMatrix, InitialScalar, MatMul, OuterNonlin, ScalarNonlin
from tplimits.regimes.depth.algebra.products import OPEN, Poly, lowest, renamed
from tplimits.regimes.depth.derivation.not_covered import no_central_limit, too_random
from tplimits.regimes.depth.derivation.scalars.sizes import mean_and_covariance

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.depth.derivation.lowering import Lowering


class NotLinear(Exception):
    """A matrix multiplies what is not linear in the state."""


def read_axes(program: Program, position: int) -> tuple[str, ...]:
    """The axes of what stands under an entry of an instruction: under that of a matrix, its product with the state."""
    s = program[position]
    return (*s.axes, *program[program.state or 0].axes) if isinstance(s, InitialMatrix) else s.axes


def written(lowering: Lowering, expr: Expr, change: Mapping[Expr, Expr], fresh: Iterator[int]) -> Expr:
    """An expression with all maps written out; NotLinear where a vector is not linear in the state."""
    if isinstance(expr, Entry):
        return _entry(lowering, expr, [change.get(i, i) for i in expr.indices], fresh)
    if isinstance(expr, ArrayEntry):
        return ArrayEntry(expr.args[0], *(change.get(i, i) for i in expr.indices))
    if isinstance(expr, AxisSum):
        # a bound index of its own: two softmax denominators in one expression sum over the same axis
        bound = Symbol(f"{expr.axis}″{next(fresh)}", integer=True)
        inner = written(lowering, expr.summand, {**change, expr.bound: bound}, fresh)
        return AxisSum(inner, bound, expr.args[2])
    if not expr.args:
        return change.get(expr, expr)
    return expr.func(*(written(lowering, a, change, fresh) for a in expr.args))


def _entry(lowering: Lowering, entry: Entry, indices: list[Expr], fresh: Iterator[int]) -> Expr:
    s = lowering.program[entry.source]
    at = dict(zip(map(axis_symbol, s.axes), indices, strict=True))
    if isinstance(s, Avg):
        _insist_on_small(lowering, entry.source)
        # an average is S/√n with S of order 1: the limit of the function is then taken in n alone
        return Entry(*entry.args[:2], *indices) / N ** Rational(1, 2)
    if isinstance(s, InitialScalar):
        return s.value
    if isinstance(s, MatMul):
        family = [at.get(i, i) for i in s.matrix_indices]
        found = _times(lowering, s.matrix, family, written(lowering, s.operand, at, fresh))
        return _scale(lowering.program, s) * found
    if isinstance(s, ScalarNonlin) or (isinstance(s, OuterNonlin) and not s.slots):
        return written(lowering, s.body, at, fresh)
    if entry.source != lowering.program.state:
        raise NotLinear
    return Entry(*entry.args[:2], *indices)


def _scale(program: Program, s: MatMul) -> Expr:
    """The variance of W is 1/columns; the sum of Wᵀ goes over its rows."""
    matrix = program[s.matrix]
    assert isinstance(matrix, InitialMatrix)
    return sqrt(width_symbol(matrix.rows) / width_symbol(matrix.columns)) if s.transposed else sqrt(1)


def _times(lowering: Lowering, matrix: int, family: list[Expr], operand: Expr) -> Expr:
    """A matrix times what is linear in the state."""
    if isinstance(operand, Entry) and operand.source == lowering.program.state:
        return Entry(Integer(matrix), operand.neuron, *family, *operand.indices)
    if isinstance(operand, Add):
        return Add(*(_times(lowering, matrix, family, a) for a in operand.args))
    if isinstance(operand, AxisSum):
        return AxisSum(_times(lowering, matrix, family, operand.summand), *operand.args[1:])
    vectors = [a for a in Mul.make_args(operand) if reads_vectors(a)]
    if len(vectors) != 1 or vectors[0] == operand:
        raise NotLinear
    return operand / vectors[0] * _times(lowering, matrix, family, vectors[0])


def _insist_on_small(lowering: Lowering, position: int) -> None:
    """Refuse an average that is larger than n^(−1/2), as avg(h²) is: it would be lost beside S."""
    value = average(lowering, position)
    if lowest(value) < 1:
        name = lowering.program[position].name
        mean, _ = mean_and_covariance(value, lowering.model, lowering.arrays, frozenset())
        raise no_central_limit(name) if mean.opaque or any(o < 1 for o in mean.forms) else too_random(name)


def average(lowering: Lowering, position: int) -> Poly:
    """An average at the open indices OPEN − 1, …."""
    axes = [lowering.fresh(lowering.dimension_of(a)) for a in lowering.program[position].axes]
    poly = lowering.value(position, None, tuple(axes))
    opened = {i: OPEN - 1 - k for k, i in enumerate(axes)}
    return Poly(tuple(t._replace(factors=renamed(t.factors, opened)) for t in poly.terms), poly.cut)
