"""Residual branches of a network: what is added to a stream that it was made from, by the instruction at its end.

x + tanh(W x) is a sum whose second term has no instruction of its own, and gets one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx
import sympy
from sympy import Expr, Integer

from tplimits.program.nodes.entries import NO_NEURON, OWN, AxisSum, Entry, axis_symbol, constant_symbol, free_indices
from tplimits.program.nodes.kinds import InitialVector, Instruction, MatMul, OuterNonlin, moved

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


#: what every branch is multiplied by, in programs that are counted
FACTOR = constant_symbol("factor_of_blocks")


class Branch(NamedTuple):
    """A term of a sum in which another term is a stream that it was made from: the instruction at its end."""

    end: int
    stream: int


def branches(program: Program) -> tuple[Branch, ...]:
    """The ends of residual branches, and the streams that they are added to."""
    behind = {p: networkx.ancestors(program.graph, p) for p in range(len(program))}
    found: dict[int, int] = {}
    for s in program:
        if isinstance(s, OuterNonlin):
            for terms in _sums(program, s.body):
                plain = [p for p, is_plain in terms if is_plain and program[p].operands]
                for end, _ in terms:
                    # a term made from another term is a branch; the last such term is the stream right before it
                    streams = [q for q in plain if q != end and q in behind[end]]
                    if streams:
                        found[end] = max(streams)
    return tuple(Branch(end, stream) for end, stream in sorted(found.items()))


def _sums(program: Program, body: sympy.Expr) -> Iterator[list[tuple[int, bool]]]:
    """For every sum of vectors the instructions of its terms, and whether these stand there with a number alone."""
    for node in sympy.preorder_traversal(body):
        if isinstance(node, sympy.Add):
            yield summed(program, node)


def summed(program: Program, node: sympy.Expr) -> list[tuple[int, bool]]:
    """The vectors that a sum is made of, one for a term, and whether each stands there with a number alone."""
    terms = []
    for term in sympy.Add.make_args(node):
        factors = [f for f in sympy.Mul.make_args(term) if f.has(Entry)]
        vectors = [f for f in factors if isinstance(f, Entry) and f.neuron != NO_NEURON]
        # gains multiply a branch and are not what it is; a sum of initial vectors alone has no other
        made = [f for f in vectors if not isinstance(program[f.source], InitialVector)] or vectors
        if len(made) == 1:
            terms.append((int(made[0].source), len(factors) == 1))
    return terms


def damped(program: Program, ends: Collection[int]) -> Program:
    """The program whose branches are multiplied by `FACTOR` where they are added."""

    def read(s: Any) -> Any:
        if not isinstance(s, OuterNonlin):
            return s
        entries = {e: FACTOR * e for e in s.body.atoms(Entry) if int(e.source) in ends}
        return replace(s, body=s.body.xreplace(entries)) if entries else s

    constants = {**program.constants, FACTOR.name: None}
    return program.replace(instructions=tuple(map(read, program)), constants=constants)


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
    ('W (tanh)', tanh(Entry(5, α)), (Entry(4, α) + Entry(6, α))*Entry(3, α))
    """
    places: list[int] = []
    instructions: list[Instruction] = []
    made: dict[tuple[Expr, str], int] = {}
    taken = {s.name for s in network}
    for written in network:
        s = moved(written, places.__getitem__)
        if isinstance(s, OuterNonlin) and not s.slots:
            while (found := _end(instructions, s)) is not None:
                old, end, axes = found
                # in the indices of its axes it is one instruction, whatever the bodies that hold it sum over
                body = end.xreplace({i: axis_symbol(a) for a, i in axes.items()})
                if (body, s.over) not in made:
                    made[body, s.over] = len(instructions)
                    name = _free(_called(instructions, end), taken)
                    instructions.append(replace(s, name=name, axes=tuple(axes), body=body))
                at = made[body, s.over]
                place = Entry(Integer(at), OWN, *(axes[a] for a in instructions[at].axes))
                new = old - end + place if isinstance(old, sympy.Add) else old / end * place
                s = replace(s, body=s.body.xreplace({old: new}))
            if {axis_symbol(a) for a in s.axes} <= free_indices(s.body):
                made.setdefault((s.body, s.over), len(instructions))
        places.append(len(instructions))
        instructions.append(s)
    if tuple(instructions) == network.instructions:
        return network
    return network.rearranged(instructions, places.__getitem__)


def _end(instructions: Sequence[Instruction], s: OuterNonlin) -> tuple[Expr, Expr, dict[str, Expr]] | None:
    """What ends a branch, its axes, and what it stands in, in this order: this, the end, its axes.

    It is a factor of a term that is no multiple of one vector, or a term with the scalars of it that are added there.
    """
    axis_of = {axis_symbol(a): a for a in s.axes} | {node.bound: node.axis for node in s.body.atoms(AxisSum)}
    # sums inside of others first: what holds them is a function of their terms
    for total in sorted(s.body.atoms(sympy.Add), key=lambda e: (e.count_ops(), sympy.default_sort_key(e))):
        if (whole := _with_its_scalars(instructions, total)) is not None:
            axes = {axis_of[i]: i for i in sorted(free_indices(whole), key=str) if i in axis_of}
            return total, whole, dict(sorted(axes.items()))
        for term in total.args:
            inner = [f for f in sympy.Mul.make_args(term) if _made(instructions, f)]
            # numbers, scalars and gains multiply a branch, and are not what it is
            end = sympy.Mul(*inner)
            indices = free_indices(end)
            axes = {axis_of[i]: i for i in sorted(indices, key=str) if i in axis_of}
            whole = len(axes) == len(indices) and {e.neuron for e in end.atoms(Entry)} <= {OWN, NO_NEURON}
            if inner and whole and not _is_one_vector(instructions, inner):
                return term, end, dict(sorted(axes.items()))
    return None


def _with_its_scalars(instructions: Sequence[Instruction], total: Expr) -> Expr | None:
    """A vector and the scalars made of it in a sum with other vectors, as r − ⟨r⟩ in x + r − ⟨r⟩."""
    vectors = {t: max(e.source for e in made) for t in total.args if (made := _made(instructions, t))}
    belonging: dict[Expr, list[Expr]] = {}
    for term in total.args:
        if term.has(Entry) and all(e.neuron == NO_NEURON for e in term.atoms(Entry)):
            behind = _behind(instructions, {int(e.source) for e in term.atoms(Entry)})
            # the last of several vectors that a scalar was made of
            if made_of := [t for t in vectors if vectors[t] in behind]:
                belonging.setdefault(max(made_of, key=lambda t: vectors[t]), []).append(term)
    return next((sympy.Add(t, *scalars) for t, scalars in belonging.items() if len(vectors) > 1), None)


def _behind(instructions: Sequence[Instruction], sources: set[int]) -> set[int]:
    """All that some instructions are made of."""
    found: set[int] = set()
    left = sources
    while left:
        found |= left
        left = {p for q in left for p in instructions[q].operands} - found
    return found


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
    left = sorted({int(e.source) for e in end.atoms(Entry)})
    while left:
        # what an instruction reads stands before it: the largest position left is the nearest
        s = instructions[left.pop()]
        if isinstance(s, MatMul) or (s.operands and not s.name.startswith("_")):
            named = instructions[s.matrix] if isinstance(s, MatMul) and s.name.startswith("_") else s
            return f"{named.name} ({type(end).__name__})"
        left = sorted({*left, *s.operands})
    return f"_{len(instructions)}"


def _free(name: str, taken: set[str]) -> str:
    """A name that no instruction has: those at the ends of blocks may be made of members of one family."""
    found = next(k for k in (name, *(f"{name}#{i}" for i in range(2, len(taken) + 3))) if k not in taken)
    taken.add(found)
    return found
