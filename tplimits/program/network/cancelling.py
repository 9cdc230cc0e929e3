"""Outputs that are 0 at every width: Σ_α (x_α − Avg(x)) is none, whatever the parameters are.

Nor is Σ_α (Wᵀy)_α x_α − Σ_β y_β (W x)_β, where both images stand in the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import NO_NEURON, OWN, AxisSum, Entry, axis_symbol, bound_axis_symbol, width_symbol
from tplimits.program.nodes.kinds import Avg, InitialMatrix, MatMul, OuterNonlin, ScalarNonlin

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: instructions that take more operations in terms of leaves, or more sums in one product, are left as they are: what
#: a network centres it writes in a few, and taking less apart finds fewer zeros and no wrong one
MOST_OPERATIONS, MOST_SUMS = 200, 6

#: Avg of one product of vectors, or of y·(W x) as (y, x, W, indices of W), which are no instructions of their own
_mean = sympy.Function("mean")


def refuse_output_that_cancels(program: Program) -> None:
    """NoLimitError for a network whose readout sums to 0 over the neurons, by linearity of Avg.

    >>> import tplimits as tp
    >>> @tp.network
    ... def centred(ξ: tp.Input, U: tp.Vector):
    ...     return U * ξ - tp.avg(U * ξ)
    >>> try:
    ...     refuse_output_that_cancels(centred)
    ... except NoLimitError as error:
    ...     print("the output is 0 whatever the parameters are" in str(error))
    True
    """
    position = program.returns[0]
    body = _body(program, position)
    # most networks subtract nothing: writing them out would take longer than deriving them
    if body is None or not _subtracts(program, body):
        return
    entry = Entry(sympy.Integer(position), OWN, *map(axis_symbol, program[position].axes))
    if _averaged(program, _written(program, entry, 0), 0) == 0:
        raise NoLimitError(
            f"{program.where(position)}: what is read out sums to 0 over its neurons at every width: the output is 0 "
            "whatever the parameters are. Multiply what is read out by a vector of its own."
        )


def _subtracts(program: Program, body: Expr) -> bool:
    """Whether an average or two images of a matrix enter what is read out, anywhere; nothing cancels without them."""
    pending, seen, matrices = list(_sources(body)), set[int](), set[int]()
    while pending:
        position = pending.pop()
        if position in seen:
            continue
        seen.add(position)
        s = program[position]
        if isinstance(s, Avg) or (isinstance(s, MatMul) and s.matrix in matrices):
            return True
        if isinstance(s, MatMul):
            matrices.add(s.matrix)
        further = _body(program, position)
        pending += _sources(further) if further is not None else ()
    return False


def _sources(body: Expr) -> Iterator[int]:
    return (entry.source for entry in body.atoms(Entry))


def _body(program: Program, position: int) -> Expr | None:
    """What an instruction computes of one neuron; None for images, leaves, and means over other neurons."""
    s = program[position]
    if not isinstance(s, (OuterNonlin, ScalarNonlin)) or (isinstance(s, OuterNonlin) and s.slots):
        return None
    return s.body


def _written(program: Program, entry: Entry, depth: int) -> Expr:
    """An entry in terms of leaves and images, averages of sums taken term by term; `depth` sums stand around it."""
    s = program[entry.source]
    at = {axis_symbol(a): i for a, i in zip(s.axes, entry.indices, strict=True)}
    if isinstance(s, Avg) and s.operand is not None:
        return _averaged(program, _written(program, s.operand.xreplace(at), depth), depth)
    body = _body(program, entry.source)
    if body is None or entry.neuron not in (OWN, NO_NEURON):
        return entry
    found = _opened(program, body.xreplace(at), depth)
    sums = max((sum(f.is_Add for f in term.args) for term in found.atoms(sympy.Mul)), default=0)
    return found if found.count_ops() <= MOST_OPERATIONS and sums <= MOST_SUMS else entry


def _opened(program: Program, expr: Expr, depth: int) -> Expr:
    """An expression with its entries written out; running indices are named by how deep they stand, or one would be
    caught by the sum that it is put into."""
    if isinstance(expr, Entry):
        return _written(program, expr, depth)
    if not expr.has(Entry):
        return expr
    if isinstance(expr, AxisSum):
        # negative numbers, which no traced program uses
        running = bound_axis_symbol(expr.axis, -1 - depth)
        return AxisSum(_opened(program, expr.summand.xreplace({expr.bound: running}), depth + 1), running, expr.args[2])
    return expr.func(*(_opened(program, a, depth) for a in expr.args))


def _averaged(program: Program, expr: Expr, depth: int) -> Expr:
    """Avg of a sum: factors that no neuron has stand before it."""
    means = (c * (product if product == 1 else _mean_of(program, product, depth)) for c, product in _terms(expr))
    return sympy.expand_mul(sympy.Add(*means))


def _terms(expr: Expr) -> Iterator[tuple[Expr, Expr]]:
    """The terms of a sum, as factors that no neuron has and those that one has."""
    for term in sympy.Add.make_args(sympy.expand_mul(expr)):
        constant, dependent = sympy.S.One, sympy.S.One
        for factor in sympy.Mul.make_args(term):
            if any(e.neuron == OWN for e in factor.atoms(Entry) - _inside_means(factor)):
                dependent *= factor
            else:
                constant *= factor
        yield constant, dependent


def _mean_of(program: Program, product: Expr, depth: int) -> Expr:
    """Avg of a product; Avg of y·(W x), which is that of (Wᵀy)·x up to widths, by both factors of the last image."""
    if isinstance(product, AxisSum):
        return AxisSum(_averaged(program, product.summand, depth + 1), product.bound, product.args[2])
    image = _last_image(program, product)
    if image is None:
        return _mean(product)
    s = program[image.source]
    assert isinstance(s, MatMul) and s.operand is not None
    at = {axis_symbol(a): i for a, i in zip(s.axes, image.indices, strict=True)}
    matrix, indices = program[s.matrix], [i.xreplace(at) for i in s.matrix_indices]
    assert isinstance(matrix, InitialMatrix)
    sizes = width_symbol(matrix.rows) / width_symbol(matrix.columns) if s.transposed else sympy.S.One
    # ⟨y, W x⟩ = ⟨Wᵀy, x⟩: both written as one symbol of (y, x, W) cancel where they are subtracted
    outer, total = product / image, sympy.S.Zero
    for constant, inner in _terms(_written(program, s.operand.xreplace(at), depth)):
        sides = (inner, outer) if s.transposed else (outer, inner)
        total += constant * _mean(*sides, sympy.Integer(s.matrix), *indices)
    return sizes * total


def _last_image(program: Program, product: Expr) -> Entry | None:
    """The image among the factors that was computed last."""
    powers = (f.as_base_exp() for f in sympy.Mul.make_args(product))
    own = (b for b, power in powers if isinstance(b, Entry) and b.neuron == OWN and power.is_Integer and power > 0)
    images = [b for b in own if isinstance(program[b.source], MatMul)]
    # its operand may hold earlier images, and never the other way
    return max(images, key=lambda image: image.source, default=None)


def _inside_means(factor: Expr) -> set[Entry]:
    """Entries whose neuron an average has summed; one that stands outside as well is none of them."""
    bare = factor.replace(lambda e: isinstance(e, _mean), lambda _: sympy.S.One)
    return factor.atoms(Entry) - bare.atoms(Entry)


__all__ = ["refuse_output_that_cancels"]
