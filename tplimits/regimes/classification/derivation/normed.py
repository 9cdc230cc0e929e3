"""Readouts that are embeddings, too, below a norm: what the norm divides by, the readout may be multiplied by.

A weight that reads the output starts n^(−1); as an embedding it would be too small.  Where a norm stands on all that it
is added to, nothing above the norm sees its size, and no factor on the output is needed.  The ε of the norm is taken to
be 0, small beside what it is added to at the widths of a script.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sympy

from tplimits.program.network.parameters import parameter_places
from tplimits.program.nodes.entries import NO_NEURON, Entry
from tplimits.program.nodes.kinds import MatMul, Nonlin, OuterNonlin
from tplimits.program.parametrization.roles import is_centred
from tplimits.regimes.classification.derivation.powers_within import in_every_term
from tplimits.regimes.classification.derivation.sizes import NOTHING, Size, size_of

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

Sizes = Mapping[int, Size]
#: numbers below it, added to something, are there against division by zero
SMALL = 1e-3


def below_norms(late: Any) -> Any:
    """The same powers with the factor of the output in a tied readout and what is added to it; None if seen above."""
    program = _without_eps(late.program)
    tied = _tied(program)
    if not tied:
        return None
    before = replace(late, program=program)
    names = parameter_places(program)
    # each round ties one more initial vector at least, or ends
    for _ in range(len(names)):
        after = replace(before, readouts=tuple(names[p] for p in sorted(tied)))
        partners, hidden = _partners(program, before.values, after.values)
        # all that is added to what shrinks shrinks too: the norm above sees nothing
        if partners <= tied:
            if hidden:
                return None
            settled = after.step.output.start <= 0 and after.step.output.move == 0
            return after if settled and not _is_seen(program, before.values, after.values) else None
        tied |= partners
    return None


def _without_eps(program: Program) -> Program:
    def read(s: Any) -> Any:
        if not isinstance(s, Nonlin):
            return s
        small = {
            node: node - sum(f for f in node.args if f.is_number and abs(f) < SMALL)
            for node in s.body.atoms(sympy.Add) if node.has(Entry)
        }  # fmt: skip
        return replace(s, body=s.body.xreplace({a: b for a, b in small.items() if a != b}))

    return program.replace(instructions=tuple(map(read, program)))


def _tied(program: Program) -> set[int]:
    """The random vectors of which every term of the output holds one."""
    centred = [p for p in range(len(program)) if is_centred(program, p)]
    return in_every_term(program[program.returns[0]], centred)


def _partners(program: Program, before: Sizes, after: Sizes) -> tuple[set[int], bool]:
    """The initial vectors that are added to what shrinks, and whether something else is, which would hide it."""
    widths, hidden = program.known.width_symbols, False
    found: set[int] = set()
    for s in program:
        for node in sympy.preorder_traversal(s.body) if isinstance(s, OuterNonlin) else ():
            summands = node.args if isinstance(node, sympy.Add) else ()
            terms = [t for t in summands if any(e.neuron != NO_NEURON for e in t.atoms(Entry))]
            shrunk = [_start(t, after, widths) - _start(t, before, widths) for t in terms]
            for term, by in zip(terms, shrunk, strict=True):
                if by > min(shrunk):
                    partner = isinstance(term, Entry) and is_centred(program, term.source)
                    found |= {int(term.source)} if partner else set()
                    hidden |= not partner
    return found, hidden


def _start(term: sympy.Expr, sizes: Sizes, widths: frozenset[sympy.Symbol]) -> Any:
    found = size_of(term, lambda e: sizes[e.source], widths).start
    return 0 if found == NOTHING else found


def _is_seen(program: Program, before: Sizes, after: Sizes) -> bool:
    """Whether weights inside of the model see that something shrinks."""
    read = [s.operand.source for s in program if isinstance(s, MatMul)]
    return any(after[p].start != before[p].start for p in read)
