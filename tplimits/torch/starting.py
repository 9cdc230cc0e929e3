"""Entries that are small at the start: which of them infinite width may set to 0, and which it may not.

PyTorch draws biases like n^(−½).  Beside a sum of order 1 they vanish; a vector as small that multiplies neurons does
not, since the sum over them grows.  Limits know of one such vector, the readout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.program.nodes.entries import Entry
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar, InitialVector, Instruction, Nonlin
from tplimits.program.nodes.laws import GIVEN, NORMAL, Law
from tplimits.program.parametrization.roles import roles

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.torch.entries import Entries


def at_infinity(program: Program, entries: Mapping[str, Entries]) -> tuple[Instruction, ...]:
    """The instructions with 0 for the vectors that are small beside what they are added to, and for small scalars."""
    small, readouts = _small(program, entries), roles(program).named("readout")

    def started(s: Instruction) -> Instruction:
        if isinstance(s, InitialScalar) and s.name in small:
            return replace(s, value=sympy.S.Zero, law=NORMAL)
        if isinstance(s, InitialVector) and s.name in small and s.name not in readouts and _added(program, s, small):
            return replace(s, law=Law(sympy.S.Zero, sympy.S.Zero))
        return s

    return tuple(map(started, program))


def unlike_order_one(program: Program, entries: Mapping[str, Entries]) -> Iterator[str]:
    """What limits, which take vectors as of order 1, would misread."""
    small, readouts = _small(program, entries), roles(program).named("readout")
    for s in program:
        if not isinstance(s, InitialVector) or s.name in readouts or s.name not in entries:
            continue
        e = entries[s.name]
        if e.power < 0:
            yield f"`{s.name}` starts at {e}, and limits take vectors of order 1: nothing of it stays finite."
        elif s.name in small and not s.law.mean == s.law.std == 0:
            if _added(program, s, small):
                yield f"`{s.name}` starts at {e}, beside sums of order 1: take net.leading(), where it starts at 0."
            else:
                yield (
                    f"`{s.name}` starts at {e} and multiplies neurons, but no readout: the model returns a function of "
                    "their sum, of several sums, or none. Return that sum alone, or take net.headed()."
                )


def unlike_products(program: Program, entries: Mapping[str, Entries]) -> Iterator[str]:
    """Matrices and readouts whose products with n neurons are of another order than limits take them to be."""
    readouts, half = roles(program).named("readout"), Fraction(1, 2)
    for s in program:
        e = entries.get(s.name)
        if e is None or e.shape in ("constant", GIVEN):
            continue
        # readouts may be smaller: those of μP are
        if (isinstance(s, InitialMatrix) and e.power != half) or (s.name in readouts and e.power < half):
            yield (
                f"`{s.name}` starts at {e}: its products with n neurons go like n^({half - e.power}), and limits are "
                "those of products of order 1. Initialise it with c·n**(-0.5) in make; net.classify and tp.scaling "
                "count other powers."
            )


def _small(program: Program, entries: Mapping[str, Entries]) -> frozenset[str]:
    return frozenset(s.name for s in program if s.name in entries and entries[s.name].power > 0)


def _added(program: Program, vector: Instruction, small: frozenset[str]) -> bool:
    """Whether a vector is nothing but a summand beside others that are not small."""
    position = program.initial_names[vector.name]
    for reader in program.graph.successors(position):
        s = program[reader]
        if not isinstance(s, Nonlin) or not _stands_beside(program, s.body, position, small):
            return False
    return True


def _stands_beside(program: Program, node: Expr, position: int, small: frozenset[str]) -> bool:
    """Whether every entry of an instruction is a summand, times a number, beside others."""
    if not any(e.source == position for e in node.atoms(Entry)):
        return True
    if isinstance(node, sympy.Add):
        own = [a for a in node.args if _is_multiple(a, position)]
        rest = [a for a in node.args if a not in own]
        beside = {program[e.source].name for a in rest for e in a.atoms(Entry)} - small
        return (not own or bool(beside)) and all(_stands_beside(program, a, position, small) for a in rest)
    if isinstance(node, Entry) or _is_multiple(node, position):
        return False
    return all(_stands_beside(program, a, position, small) for a in node.args)


def _is_multiple(node: Expr, position: int) -> bool:
    """Whether an expression is a number times an entry of an instruction."""
    number, rest = node.as_coeff_Mul()
    return isinstance(rest, Entry) and rest.source == position and bool(number.is_number)
