"""Expressions with all maps written out, over what a weight of order 1 reads: averages, and entries of dense layers.

An average is M + S/√n, M its mean, a polynomial in entries of V, and S of order 1 under the average's own entry; V_ij
stands under that of the state at two tokens.  Of vectors that are linear in the state, W acts on each token:
W Σ_k c_k x_k = Σ_k c_k (W x)_k, whatever scalars c_k are, and (W x)_k stands under the entry of W itself; scalars that
multiply what is averaged stand outside of the average.  What is left of an average at 1/n, and W times a vector that is
not linear in the state, is a `Rest`, and must vanish in the limit, as W r does in relu(W (x + r/√n)).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from sympy import Add, Expr, Integer, Mul, Rational, S, Symbol, default_sort_key, expand_mul, sqrt

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import (
    NO_NEURON,
    ArrayEntry,
    AxisSum,
    Entry,
    Leaf,
    N,
    axis_symbol,
    reads_vectors,
    width_symbol,
)
from tplimits.program.nodes.kinds import (
    Avg,
    InitialMatrix,
    InitialScalar,
    InitialVector,
    MatMul,
    OuterNonlin,
    ScalarNonlin,
)
from tplimits.regimes.depth.algebra.activations import LINEAR
from tplimits.regimes.depth.algebra.model import ONES, Layer
from tplimits.regimes.depth.algebra.products import (
    MOST,
    OPEN,
    Factor,
    Factors,
    Poly,
    ProductTerm,
    lowest,
    multiplied,
    renamed,
)
from tplimits.regimes.depth.derivation.not_covered import NoFormulasError, no_central_limit, too_random

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.depth.derivation.lowering import Lowering


class Rest(Leaf):
    """Something of order 1 of which no law is known, (what, …); a limit that holds it is none."""


class Unwritten(Exception):
    """A vector that is no sum of matrices times others."""


def read_axes(program: Program, position: int) -> tuple[str, ...]:
    """The axes of what stands under an entry of an instruction: under that of a matrix, its product with the state."""
    s = program[position]
    return (*s.axes, *program[program.state or 0].axes) if isinstance(s, InitialMatrix) else s.axes


def written(lowering: Lowering, expr: Expr, change: Mapping[Expr, Expr], fresh: Iterator[int]) -> Expr:
    """An expression with all maps written out; Unwritten for other vectors than the state."""
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
        front, _ = _factors(lowering, s, at, fresh)
        mean, random, exact, _ = average(lowering, entry.source)
        places = {OPEN - 1 - k: i for k, i in enumerate(indices)}
        own = Entry(*entry.args[:2], *indices) / N ** Rational(1, 2) if random.terms else S.Zero
        rest = S.Zero if exact else Rest(*entry.args[:1], *indices) / N
        return front * (own + rest + Add(*(_of_state(lowering, t, places) for t in mean)))
    if isinstance(s, InitialScalar):
        if s.value is None:
            lowering.value(entry.source, None, ())  # refused by name
        return s.value
    if isinstance(s, MatMul):
        family = [at.get(i, i) for i in s.matrix_indices]
        found = _times(lowering, s.matrix, family, expand_mul(written(lowering, s.operand, at, fresh)))
        return _scale(lowering.program, s) * found
    if isinstance(s, ScalarNonlin) or (isinstance(s, OuterNonlin) and not s.slots):
        return written(lowering, s.body, at, fresh)
    front = S.One
    if entry.source != lowering.program.state:
        if not (isinstance(s, InitialVector) and lowering.reading.is_fresh(entry.source)):
            raise Unwritten
        front = s.law.std
    return front * Entry(*entry.args[:2], *indices)


def _scale(program: Program, s: MatMul) -> Expr:
    """The variance of W is 1/columns; the sum of Wᵀ goes over its rows."""
    matrix = program[s.matrix]
    assert isinstance(matrix, InitialMatrix)
    return sqrt(width_symbol(matrix.rows) / width_symbol(matrix.columns)) if s.transposed else sqrt(1)


def _times(lowering: Lowering, matrix: int, family: list[Expr], operand: Expr) -> Expr:
    """A matrix times a vector."""
    if isinstance(operand, Entry) and operand.source == lowering.program.state:
        return Entry(Integer(matrix), operand.neuron, *family, *operand.indices)
    if isinstance(operand, Add):
        return Add(*(_times(lowering, matrix, family, a) for a in operand.args))
    if isinstance(operand, AxisSum):
        return AxisSum(_times(lowering, matrix, family, operand.summand), *operand.args[1:])
    vectors = Mul(*(a for a in Mul.make_args(operand) if reads_vectors(a)))
    if vectors == operand:
        return Rest(Integer(matrix), *family, operand)
    return operand / vectors * _times(lowering, matrix, family, vectors)


def _factors(lowering: Lowering, s: Avg, at: Mapping[Expr, Expr], fresh: Iterator[int]) -> tuple[Expr, Expr | None]:
    """Scalars and numbers, and the entries of vectors that they multiply and an average is of; None for all of it."""
    try:
        found = Mul.make_args(written(lowering, s.operand, at, fresh))
    except (Unwritten, NoLimitError):
        return S.One, None
    vectors = [a for a in found if reads_vectors(a)]
    front = Mul(*(a for a in found if a not in vectors))
    plain = all(isinstance(v.as_base_exp()[0], Entry) for v in vectors)
    return (front, Mul(*vectors)) if plain and front != 1 else (S.One, None)


def _of_state(lowering: Lowering, term: ProductTerm, places: Mapping[int, Expr]) -> Expr:
    """A product of entries of V."""
    state = Integer(lowering.program.state or 0)
    pairs = [sorted((places[i] for i in at), key=default_sort_key) for _, at, _ in term.factors]
    return term.coeff * Mul(*(Entry(state, NO_NEURON, *pair) for pair in pairs))


class Average(NamedTuple):
    """An average at the open indices OPEN − 1, …: its mean, products of entries of V, and what it fluctuates by.

    `exact` where nothing is left at 1/n, `whole` where the fluctuations alone are all of it.
    """

    mean: list[ProductTerm]
    random: Poly
    exact: bool
    whole: bool


def average(lowering: Lowering, position: int) -> Average:
    """The average of an instruction, without the scalars that multiply all of it.

    Refuses one that fluctuates by more than n^(−1/2), and one whose mean holds more than V at the indices.
    """
    program = lowering.program
    s = program[position]
    assert isinstance(s, Avg)
    axes = [lowering.fresh(lowering.dimension_of(a)) for a in s.axes]
    env = dict(zip(map(axis_symbol, s.axes), axes, strict=True))
    alone = _factors(lowering, s, {}, itertools.count())[1]
    poly = lowering.average(alone or s.operand, s.over, env)
    opened = {i: OPEN - 1 - k for k, i in enumerate(axes)}
    terms = [t._replace(factors=_at_state(lowering, renamed(t.factors, opened))) for t in poly.terms if t.pert < MOST]
    random = [t for t in terms if any(label[0] in "FZ" for label, _, _ in t.factors)]
    mean = [t for t in terms if t not in random]
    of_state = all(label == "V" and max(at) < 0 for t in mean for label, at, _ in t.factors)
    if not of_state or any(any(t.powers) for t in mean):
        raise no_central_limit(program[position].name)
    if lowest(Poly(tuple(random))) < 1:
        raise too_random(program[position].name)
    whole = not mean and alone is None
    return Average(mean, Poly(tuple(random), poly.cut), len(terms) == len(poly.terms), whole)


def _at_state(lowering: Lowering, factors: Factors) -> Factors:
    """Products with the state and smaller parts as products with the state: of averages what leads counts.

    W (x + U φ(x)/√n) is W x but for n^(−1/2).
    """
    model, found = lowering.model, []
    for label, at, copy in factors:
        layer = model.layers.get(label)
        if layer is not None and layer.operand not in (None, ONES):
            leading = [t for t in model.operands[layer.operand].terms if t.pert <= 0]
            if leading == list(lowering.one(("X", (OPEN - 1, OPEN), 0)).terms):
                layer = replace(layer, operand=None)
                model.layers[layer.label] = layer
                label = layer.label
        found.append((label, at, copy))
    return tuple(found)


def of_matrix(lowering: Lowering, matrix: int, at: tuple[int, ...]) -> Factor:
    """The factor that stands for an entry of a matrix times the state: members of its family, a token, a neuron."""
    s = lowering.program[matrix]
    assert isinstance(s, InitialMatrix)
    layer = Layer(matrix, False, None, LINEAR, len(s.axes), *(lowering.number_of[w] for w in (s.rows, s.columns)))
    lowering.model.layers[layer.label] = layer
    return layer.label, at, 0


def of_vector(lowering: Lowering, position: int, at: tuple[int, ...]) -> Poly:
    """A Gaussian vector beside the state as B 1, B a matrix of its own and 1 the vector of ones, whose Gram is 1."""
    s = lowering.program[position]
    assert isinstance(s, InitialVector)
    if not lowering.reading.is_fresh(position):
        raise NoFormulasError(
            f"{lowering.where}: the vector `{s.name}` is not the state; of vectors beside it Gaussian ones of mean "
            "zero are covered: write it as a matrix times the state, or leave it out."
        )
    width = lowering.number_of[s.width]
    layer = Layer(position, False, ONES, LINEAR, len(s.axes), width, width)
    lowering.model.operands[ONES], lowering.model.layers[layer.label] = lowering.one(), layer
    return multiplied(lowering.number(s.law.std), lowering.one((layer.label, at, 0)), lowering.limit)
