"""Outputs that are 0 at every width: Σ_α (x_α − Avg(x)) is none, whatever the parameters are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import NO_NEURON, OWN, AxisSum, Entry, axis_symbol
from tplimits.program.nodes.kinds import Avg, OuterNonlin, ScalarNonlin

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: instructions that take more operations in terms of leaves, or more sums in one product, are left as they are: what
#: a network centres it writes in a few, and taking less apart finds fewer zeros and no wrong one
MOST_OPERATIONS, MOST_SUMS = 200, 6

#: Avg of one product of vectors, which is no instruction of its own
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
    if body is None or not _subtracts(program, body):
        return
    entry = Entry(sympy.Integer(position), OWN, *map(axis_symbol, program[position].axes))
    if _averaged(_written(program, entry)) == 0:
        raise NoLimitError(
            f"{program.where(position)}: what is read out sums to 0 over its neurons at every width: the output is 0 "
            "whatever the parameters are. Multiply what is read out by a vector of its own."
        )


def _subtracts(program: Program, body: Expr) -> bool:
    """Whether an average enters what is read out, anywhere; nothing cancels without one."""
    pending, seen = list(_sources(body)), set()
    while pending:
        position = pending.pop()
        if position in seen:
            continue
        seen.add(position)
        if isinstance(program[position], Avg):
            return True
        further = _body(program, position)
        pending += _sources(further) if further is not None else ()
    return False


def _sources(body: Expr) -> Iterator[int]:
    return (entry.source for entry in body.atoms(Entry))


def _body(program: Program, position: int) -> Expr | None:
    """What an instruction computes of one neuron; None for images, leaves, means over other neurons and finite sums.

    Running indices are numbered afresh in every body: one put into another's sum would be caught by it.
    """
    s = program[position]
    if not isinstance(s, (OuterNonlin, ScalarNonlin)) or (isinstance(s, OuterNonlin) and s.slots):
        return None
    return None if s.body.has(AxisSum) else s.body


def _written(program: Program, entry: Entry) -> Expr:
    """An entry in terms of leaves and images, with averages of sums taken term by term."""
    s = program[entry.source]
    at = {axis_symbol(a): i for a, i in zip(s.axes, entry.indices, strict=True)}
    if isinstance(s, Avg) and s.operand is not None:
        return _averaged(_written(program, s.operand.xreplace(at)))
    body = _body(program, entry.source)
    if body is None or entry.neuron not in (OWN, NO_NEURON):
        return entry
    body = body.xreplace(at)
    found = body.xreplace({e: _written(program, e) for e in body.atoms(Entry)})
    sums = max((sum(f.is_Add for f in term.args) for term in found.atoms(sympy.Mul)), default=0)
    return found if found.count_ops() <= MOST_OPERATIONS and sums <= MOST_SUMS else entry


def _averaged(expr: Expr) -> Expr:
    """Avg of a sum: factors that no neuron has stand before it."""
    total = sympy.S.Zero
    for term in sympy.Add.make_args(sympy.expand_mul(expr)):
        constant, dependent = sympy.S.One, sympy.S.One
        for factor in sympy.Mul.make_args(term):
            if any(e.neuron == OWN for e in factor.atoms(Entry) - _inside_means(factor)):
                dependent *= factor
            else:
                constant *= factor
        total += constant * (dependent if dependent == 1 else _mean(dependent))
    return sympy.expand_mul(total)


def _inside_means(factor: Expr) -> set[Entry]:
    """Entries whose neuron an average has summed; one that stands outside as well is none of them."""
    bare = factor.replace(lambda e: isinstance(e, _mean), lambda _: sympy.S.One)
    return factor.atoms(Entry) - bare.atoms(Entry)


__all__ = ["refuse_output_that_cancels"]
