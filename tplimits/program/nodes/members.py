"""Members of families as instructions of their own, where each is only ever read by its number.

A[0] x and A[1] x are images under two independent matrices, whatever family these are stored in: in_proj_weight of
PyTorch's attention holds three, or three for each head.  What asks which matrix is used where asks it of members.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import networkx
from sympy import Expr, Integer

from tplimits.program.nodes.entries import Entry, Lookup, axis_symbol, entries
from tplimits.program.nodes.kinds import InitialMatrix, Instruction, MatMul, made_of

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: instructions beyond which families are left together
_MOST = 2000

#: the instructions that one has become, by the numbers of the members
Members = Mapping[tuple[int, ...], int]
#: an axis of an instruction: its position, and the number of the axis
Place = tuple[int, int]


@lru_cache(maxsize=256)
def members_apart(
    program: Program, ends: tuple[int, ...], together: frozenset[str] = frozenset()
) -> tuple[Program, tuple[Members, ...]]:
    """What some instructions rest on, with members in place of families, and what has become of each instruction.

    Axes that are summed over or read by data stay, and so do those that are `together`.

    >>> import tplimits as tp
    >>> @tp.program
    ... def both(A: tp.Matrix["n", "n", "which"], x: tp.Vector):
    ...     return (A.sel(which=0) @ x) * (A.sel(which=1) @ x)
    >>> split, places = members_apart(both.bind(which=2), (4,))
    >>> [s.name for s in split], dict(places[0])
    (['A[0]', 'A[1]', 'x', '_3', '_4', 'return'], {(0,): 0, (1,): 1})
    """
    used = program.behind(ends)
    numbers = _read_by_number(program, used, together)
    if not numbers:
        return program, tuple({(): p} for p in range(len(program)))
    instructions: list[Instruction] = []
    places: list[dict[tuple[int, ...], int]] = []
    for position, s in enumerate(program):
        places.append({})
        mine = [k for k in range(len(s.axes)) if (position, k) in numbers]
        for index in itertools.product(*(numbers[position, k] for k in mine)) if position in used else ():
            places[-1][index] = len(instructions)
            instructions.append(_member(program, position, dict(zip(mine, index, strict=True)), places, numbers))
            if len(instructions) > _MOST:
                return program, tuple({(): p} for p in range(len(program)))
    made = program.replace(instructions=tuple(instructions), returns=(), arguments=(), inputs=(), names={}, parts=())
    return made, tuple(places)


def _read_by_number(program: Program, used: frozenset[int], together: frozenset[str]) -> dict[Place, list[int]]:
    """Axes whose members are read by their number somewhere, and nowhere but so or one by one, with these numbers.

    Two instructions share an axis where one reads the other along it, whatever their axes are called.
    """
    same, numbered = networkx.Graph(), dict[Place, set[int]]()
    kept = {(p, k) for p in used for k, axis in enumerate(program[p].axes) if axis in together}
    looked_up: list[tuple[Place, list[Place], set[int]]] = []
    for position in used:
        s = program[position]
        own = {axis_symbol(axis): (position, k) for k, axis in enumerate(s.axes)}
        same.add_nodes_from(own.values())
        for place, index in _reads(s):
            same.add_node(place)
            if isinstance(index, Integer):
                numbered.setdefault(place, set()).add(int(index))
            elif index in own:
                same.add_edge(place, own[index])
            elif isinstance(index, Lookup) and all(i in own for i in index.indices):
                read = {int(v) for v in program.tables[index.table].values.ravel()}
                looked_up.append((place, [own[i] for i in index.indices], read))
            else:
                kept.add(place)
    classes = {place: number for number, c in enumerate(networkx.connected_components(same)) for place in c}
    matrices = {number for (p, _), number in classes.items() if isinstance(program[p], InitialMatrix)}
    # tables of positions are many: it is members of a family of matrices that have to be told apart
    whole = {classes[p] for p in kept} | {
        classes[p] for p, _, read in looked_up if classes[p] not in matrices or min(read) < 0
    }
    while more := {classes[p] for p, along, _ in looked_up if any(classes[q] in whole for q in along)} - whole:
        whole |= more
    apart: dict[int, set[int]] = {}
    for place, read in numbered.items():
        apart.setdefault(classes[place], set()).update(read)
    for place, along, read in looked_up:
        if classes[place] not in whole:
            apart.setdefault(classes[place], set()).update(read)
            for p, k in along:
                apart.setdefault(classes[p, k], set()).update(range(int(program.size(program[p].axes[k]) or 0)))
    return {p: sorted(apart[c]) for p, c in classes.items() if c in apart and c not in whole}


def _reads(s: Instruction) -> Iterator[tuple[Place, Expr]]:
    """Axes of what an instruction reads, each with the index at which it is read."""
    for entry in entries(made_of(s)) if s.operands else ():
        yield from (((entry.source, k), index) for k, index in enumerate(entry.indices))
    if isinstance(s, MatMul):
        yield from (((s.matrix, k), index) for k, index in enumerate(s.matrix_indices))


def _member(
    program: Program, position: int, at: Mapping[int, int], places: Sequence[Members], apart: Mapping[Place, list[int]]
) -> Instruction:
    """One member of an instruction, which reads members; at: the numbers of its axes that come apart."""
    s = program[position]
    here = {axis_symbol(s.axes[k]): Integer(number) for k, number in at.items()}

    def number(index: Expr) -> int:
        if isinstance(index, Lookup):
            return int(program.tables[index.table].values[tuple(int(i) for i in index.indices)])
        return int(index)

    def moved(source: int, indices: Sequence[Expr]) -> tuple[int, tuple[Expr, ...]]:
        given = [i.xreplace(here) for i in indices]
        members = tuple(number(i) for k, i in enumerate(given) if (source, k) in apart)
        return places[source][members], tuple(i for k, i in enumerate(given) if (source, k) not in apart)

    def change(body: Expr) -> Expr:
        swap = {}
        for e in entries(body):
            source, indices = moved(e.source, e.indices)
            swap[e] = Entry(Integer(source), e.neuron, *indices)
        return body.xreplace(swap).xreplace(here)

    name = f"{s.name}[{','.join(map(str, at.values()))}]" if at else s.name
    made = replace(s.changed(change), name=name, axes=tuple(a for k, a in enumerate(s.axes) if k not in at))
    if isinstance(made, MatMul):
        matrix, indices = moved(made.matrix, made.matrix_indices)
        made = replace(made, matrix=matrix, matrix_indices=indices)
    return made
