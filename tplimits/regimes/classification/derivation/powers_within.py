"""Powers of n that a program itself multiplies by: on averages, as scores over √n, and on all of its output."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import sympy

from tplimits.program.nodes.entries import NO_NEURON, Entry, N, entries
from tplimits.program.nodes.kinds import Avg, InitialVector, Instruction, Nonlin, OuterNonlin
from tplimits.program.nodes.laws import GIVEN
from tplimits.program.parametrization.roles import terms_of
from tplimits.regimes.classification.derivation.factors import powers_in

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def levelled(network: Program) -> tuple[Program, sympy.Expr]:
    """The network without the power of 1/n that all of its output is multiplied by, and that power.

    The output is a sum over neurons: a function of scalars, as of several readouts, is divided by their number there.
    """
    s = network[network.returns[0]]
    if not isinstance(s, OuterNonlin) or s.slots:
        return network, sympy.S.Zero
    widths = network.known.width_symbols
    powers = [sum(powers_in(term, widths).values()) for term in sympy.Add.make_args(s.body)]
    # the largest term decides: smaller ones keep what they have less; of scalars alone the sum has no part
    of_neurons = any(e.neuron != NO_NEURON for e in entries(s.body))
    own = -sympy.Rational(max(powers)) if of_neurons else sympy.S.One
    if own == 0:
        return network, own
    # all widths are in proportion, and count as one
    body = s.body.xreplace(dict.fromkeys(widths, N)) * N**own
    changed = [replace(s, body=body) if i == network.returns[0] else t for i, t in enumerate(network)]
    return replace(network, instructions=tuple(changed)), own


def scores_of(program: Program) -> dict[int, Fraction]:
    """Averages that the program multiplies by positive powers of n, and the powers, where no weight can take them.

    A product with a weight of one output per neuron, n ⟨v x⟩, is no score: v takes the power.
    """
    return {p: power for p, power in _multiplied(program).items() if not _weights(program, p)}


def weights_of_sums(program: Program) -> dict[str, Fraction]:
    """The vectors that are weights of averages multiplied by powers of n, and the powers."""
    return {name: power for p, power in _multiplied(program).items() for name in _weights(program, p)}


def _multiplied(program: Program) -> dict[int, Fraction]:
    """Averages that the program multiplies by positive powers of n, and the powers."""
    widths = program.known.width_symbols
    averages = {p for p, s in enumerate(program) if isinstance(s, Avg)}
    found: dict[int, Fraction] = {}
    for s in program:
        if isinstance(s, Nonlin):
            for entry, power in _powers(s.body, widths, averages).items():
                position = int(entry.source)
                found[position] = max(found.get(position, power), power)
    return found


def _powers(body: sympy.Expr, widths: frozenset[sympy.Symbol], averages: Collection[int]) -> dict[Entry, Fraction]:
    """The positive powers of n that multiply averages; n² ⟨v x⟩⟨w x⟩ is a product of two sums."""
    found: dict[Entry, Fraction] = {}
    for node in sympy.preorder_traversal(body):
        if isinstance(node, sympy.Mul):
            power = Fraction(sum(powers_in(node, widths).values()))
            read = [e for e in node.args if isinstance(e, Entry) and int(e.source) in averages]
            if power > 0 and read:
                found |= dict.fromkeys(read, power / len(read) if power >= len(read) else power)
    return found


def _weights(program: Program, position: int) -> set[str]:
    """The random vectors of which every term of what is averaged has one as a factor; gains and tables are none."""
    average = program[position]
    assert isinstance(average, Avg)
    drawn = {p: s.law for p, s in enumerate(program) if isinstance(s, InitialVector)}
    names = {p: name for name, p in program.initial_names.items() if p in drawn}
    random = [p for p in names if drawn[p].mean == 0 and drawn[p].shape != GIVEN]
    return {names[p] for p in in_every_term(program[int(average.operand.source)], random)}


def in_every_term(s: Instruction, chosen: Collection[int]) -> set[int]:
    """Those of some vectors that stand as factors in a sum each term of which has one; else none.

    One term without such a weight keeps its size when the weights are made smaller.
    """
    found: set[int] = set()
    for term in terms_of(s.body) if isinstance(s, OuterNonlin) else ():
        factors = {int(f.source) for f in sympy.Mul.make_args(term) if isinstance(f, Entry)} & {*chosen}
        if not factors:
            return set()
        found |= factors
    return found


def damped_scores(program: Program, scores: Mapping[int, Fraction]) -> Program:
    """The program with averages multiplied by n^(−power) wherever they are read."""
    one_width = dict.fromkeys(program.known.width_symbols, N)  # they are in proportion, and n1/n is no power
    changed = []
    for s in program:
        if isinstance(s, Nonlin):
            read = {e: scores[int(e.source)] for e in s.body.atoms(Entry) if int(e.source) in scores}
            less = {e: e * N ** -sympy.Rational(p) for e, p in read.items()}
            s = replace(s, body=s.body.xreplace({**one_width, **less})) if less else s
        changed.append(s)
    return replace(program, instructions=tuple(changed)) if scores else program
