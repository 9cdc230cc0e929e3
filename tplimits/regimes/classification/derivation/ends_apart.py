"""Ends of residual branches as instructions of their own: x + tanh(W x) is a sum whose second term has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Integer

from tplimits.program.nodes.entries import NO_NEURON, OWN, Entry, axis_symbol, free_indices
from tplimits.program.nodes.kinds import InitialVector, Instruction, OuterNonlin, moved

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def with_ends_apart(network: Program) -> Program:
    """The network in which terms of sums that are functions of vectors, or products of several, are instructions.

    A branch is known by the instruction at its end, whose factor stands where it is added.

    >>> import tplimits as tp
    >>> @tp.network
    ... def residual(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    ...     x = tp.sum(U * ξ, over="d")
    ...     return v * (x + tp.tanh(W @ x))
    >>> apart = with_ends_apart(residual)
    >>> apart[-2].name, apart[-2].body, apart[-1].body
    ('x (tanh)', tanh(Entry(5, α)), (Entry(4, α) + Entry(6, α))*Entry(3, α))
    """
    places: list[int] = []
    instructions: list[Instruction] = []
    made: dict[tuple[Expr, str], Entry] = {}
    for written in network:
        s = moved(written, places.__getitem__)
        if isinstance(s, OuterNonlin) and not s.slots:
            axes = frozenset(map(axis_symbol, s.axes))
            while (found := _end(instructions, s.body, axes)) is not None:
                term, end = found
                # one instruction, however many bodies hold it
                if (end, s.over) not in made:
                    own = tuple(a for a in s.axes if axis_symbol(a) in free_indices(end))
                    made[end, s.over] = Entry(Integer(len(instructions)), OWN, *map(axis_symbol, own))
                    instructions.append(replace(s, name=_called(instructions, end), axes=own, body=end))
                s = replace(s, body=s.body.xreplace({term: term / end * made[end, s.over]}))
        places.append(len(instructions))
        instructions.append(s)
    return network.rearranged(instructions, places.__getitem__) if made else network


def _end(instructions: Sequence[Instruction], body: Expr, axes: frozenset[Expr]) -> tuple[Expr, Expr] | None:
    """A term of a sum that is no multiple of one vector, and the factor of it that makes it so."""
    # sums inside of others first: what holds them is a function of their terms
    for total in sorted(body.atoms(sympy.Add), key=lambda e: (e.count_ops(), sympy.default_sort_key(e))):
        for term in total.args:
            inner = [f for f in sympy.Mul.make_args(term) if _made(instructions, f)]
            # numbers, scalars and gains multiply a branch, and are not what it is
            end = sympy.Mul(*inner)
            within = {e.neuron for e in end.atoms(Entry)} <= {OWN, NO_NEURON} and free_indices(end) <= axes
            if inner and within and not _is_one_vector(instructions, inner):
                return term, end
    return None


def _made(instructions: Sequence[Instruction], factor: Expr) -> set[Expr]:
    """The vectors in a factor that are made of something, not initial ones."""
    return {
        e
        for e in factor.atoms(Entry)
        if e.neuron != NO_NEURON and not isinstance(instructions[e.source], InitialVector)
    }


def _is_one_vector(instructions: Sequence[Instruction], factors: Sequence[Expr]) -> bool:
    """Whether a product is linear in the only vector that it holds as it is, as the branch that this ends."""
    direct = [f for f in factors if isinstance(f, Entry)]
    others = set().union(*(_made(instructions, f) for f in factors if f not in direct))
    return len(direct) == 1 and direct[0] not in others


def _called(instructions: Sequence[Instruction], end: Expr) -> str:
    """The last instruction with a name of its own that an end is made of, and its outermost function."""
    left, seen = [int(e.source) for e in end.atoms(Entry)], set[int]()
    while left:
        # positions behind an instruction are smaller: the largest one left is the nearest
        left.sort()
        s = instructions[position := left.pop()]
        if s.operands and not s.name.startswith("_"):
            return f"{s.name} ({type(end).__name__})"
        left += [p for p in s.operands if p not in seen]
        seen.add(position)
    return f"_{len(instructions)}"
