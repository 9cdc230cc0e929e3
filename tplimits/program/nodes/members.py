"""Members of families as instructions of their own, where each is only ever read by its number.

A[0] x and A[1] x are images under two independent matrices, whatever family these are stored in: in_proj_weight of
PyTorch's attention holds three.  What asks which matrix is used where asks it of members.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from sympy import Expr, Integer

from tplimits.program.nodes.entries import Entry, axis_symbol, entries
from tplimits.program.nodes.kinds import MatMul, made_of

if TYPE_CHECKING:
    from tplimits.program.nodes.kinds import Instruction
    from tplimits.program.nodes.program import Program

#: instructions beyond which families are left together
_MOST = 2000

#: the instructions that one has become, by the numbers of the members
Members = Mapping[tuple[int, ...], int]


@lru_cache(maxsize=256)
def members_apart(program: Program, together: frozenset[str] = frozenset()) -> tuple[Program, tuple[Members, ...]]:
    """A program with members in place of families, and what has become of each instruction.

    Axes that are summed over or looked up stay, and so do those that are `together`.

    >>> import tplimits as tp
    >>> @tp.program
    ... def both(A: tp.Matrix["n", "n", "which"], x: tp.Vector):
    ...     return (A.sel(which=0) @ x) * (A.sel(which=1) @ x)
    >>> found, places = members_apart(both.bind(which=2))
    >>> [s.name for s in found], dict(places[0])
    (['A[0]', 'A[1]', 'x', '_3', '_4', 'return'], {(0,): 0, (1,): 1})
    """
    numbers = {axis: read for axis, read in _read_by_number(program).items() if axis not in together}
    apart = frozenset(numbers)
    instructions: list[Instruction] = []
    places: list[dict[tuple[int, ...], int]] = []
    for s in program if apart else ():
        mine = [a for a in s.axes if a in apart]
        places.append({})
        for index in itertools.product(*(numbers[a] for a in mine)):
            places[-1][index] = len(instructions)
            instructions.append(_member(program, s, dict(zip(mine, index, strict=True)), places, apart))
            if len(instructions) > _MOST:
                return program, _unchanged(program)
    if not apart:
        return program, _unchanged(program)
    found = program.replace(instructions=tuple(instructions), returns=(), arguments=(), inputs=(), names={}, parts=())
    return found, tuple(places)


def _unchanged(program: Program) -> tuple[Members, ...]:
    return tuple({(): p} for p in range(len(program)))


def _read_by_number(program: Program) -> dict[str, list[int]]:
    """Axes whose members are read by their number somewhere, and nowhere but so or one by one, with these numbers."""
    numbered, kept = dict[str, set[int]](), set[str]()
    for s in program:
        for axis, index in _reads(program, s):
            if isinstance(index, Integer):
                numbered.setdefault(axis, set()).add(int(index))
            elif axis not in s.axes or index != axis_symbol(axis):
                kept.add(axis)
    return {axis: sorted(read) for axis, read in numbered.items() if axis not in kept}


def _reads(program: Program, s: Instruction) -> Iterator[tuple[str, Expr]]:
    """Axes of what an instruction reads, each with the index at which it is read."""
    for entry in entries(made_of(s)) if s.operands else ():
        yield from zip(program[entry.source].axes, entry.indices, strict=True)
    if isinstance(s, MatMul):
        yield from zip(program[s.matrix].axes, s.matrix_indices, strict=True)


def _member(
    program: Program,
    s: Instruction,
    at: Mapping[str, int],
    places: list[dict[tuple[int, ...], int]],
    apart: frozenset[str],
) -> Instruction:
    """One member of an instruction, which reads members."""
    here = {axis_symbol(a): Integer(i) for a, i in at.items()}

    def moved(source: int, indices: tuple[Expr, ...]) -> tuple[int, tuple[Expr, ...]]:
        axes = program[source].axes
        given = [i.xreplace(here) for i in indices]
        number = tuple(int(i) for a, i in zip(axes, given, strict=True) if a in apart)
        return places[source][number], tuple(i for a, i in zip(axes, given, strict=True) if a not in apart)

    def change(body: Expr) -> Expr:
        swap = {}
        for e in entries(body):
            source, indices = moved(e.source, e.indices)
            swap[e] = Entry(Integer(source), e.neuron, *indices)
        return body.xreplace(swap).xreplace(here)

    name = f"{s.name}[{','.join(map(str, at.values()))}]" if at else s.name
    found = replace(s.changed(change), name=name, axes=tuple(a for a in s.axes if a not in apart))
    if isinstance(found, MatMul):
        matrix, indices = moved(found.matrix, found.matrix_indices)
        found = replace(found, matrix=matrix, matrix_indices=indices)
    return found
