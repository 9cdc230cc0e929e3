"""One spelling of a network, so that its verdict does not depend on what a program gives a name to.

a jump              |a|/a is sign(a), relu(a)/a is step(a)
one at all neurons  a vector that is a scalar is read as that scalar
written again       a vector that is an instruction is read there, wherever a body holds it
cancelled           a sum of sums is one sum, where terms of them cancel: y − (y + b) is −b
before averages     a growing power of n stands before the average of the product that it multiplies: Avg(√n q k) is
                    √n·Avg(q k), of order 1 where q k is centred
what is not read    the terms of the output that no readout multiplies are a vector of their own, a feature
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import networkx
import sympy
from sympy import Expr, Integer

from tplimits.law.hypotheses.absolutes import over_moduli
from tplimits.program.nodes.entries import OWN, AxisSum, Entry, Lookup, axis_symbol, entries, relocated
from tplimits.program.nodes.functions import relu
from tplimits.program.nodes.kinds import (
    Avg,
    Instruction,
    Nonlin,
    OuterNonlin,
    ScalarNonlin,
    made_of,
    moved,
    standing,
)
from tplimits.program.parametrization.roles import roles
from tplimits.regimes.classification.derivation.factors import powers_in

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def in_one_spelling(network: Program) -> Program:
    """The network as it is counted.

    >>> import tplimits as tp
    >>> @tp.network
    ... def twice(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Vector, v: tp.Vector):
    ...     x = tp.sum(U * ξ, over="d")
    ...     y = x + b
    ...     return v * tp.relu(tp.sum(U * ξ, over="d")) + v * (x - y)
    >>> in_one_spelling(twice).instructions[-1].body
    relu(Entry(4, α))*Entry(3, α) - Entry(2, α)*Entry(3, α)
    """
    instructions = list(network.instructions)
    named: dict[Expr, Entry] = {}
    for position, s in enumerate(instructions):
        if not isinstance(s, Nonlin):
            continue
        body = s.body.xreplace({e: standing(instructions[e.source], e) for e in _constant(instructions, s.body)})
        body = _summed(instructions, _over_moduli(instructions, body).xreplace(named))
        instructions[position] = s = replace(s, body=body)
        if isinstance(s, OuterNonlin) and not s.slots and not isinstance(body, Entry) and body.has(Entry):
            here = Entry(Integer(position), OWN, *map(axis_symbol, s.axes))
            named.setdefault(body, here)
    changed = tuple(instructions) != network.instructions
    network = network.replace(instructions=tuple(instructions)).returned if changed else network
    return _with_unread_apart(_with_powers_before_averages(network))


def _constant(instructions: Sequence[Instruction], body: Expr) -> list[Entry]:
    """The entries of vectors that are functions of scalars alone."""
    found = []
    for e in entries(body):
        s = instructions[e.source]
        if isinstance(s, OuterNonlin) and not s.slots and all(instructions[i].width is None for i in s.operands):
            found.append(e)
    return found


def _over_moduli(instructions: Sequence[Instruction], body: Expr) -> Expr:
    """A body with the jumps that quotients of moduli are, |a|/a and by names of their parts, as jumps."""
    swap: dict[Expr, Expr] = {}
    for product in body.atoms(sympy.Mul):
        bent = [e for e in product.args if isinstance(e, Entry) and isinstance(instructions[e.source], ScalarNonlin)]
        bent = [e for e in bent if isinstance(made_of(instructions[e.source]), (sympy.Abs, relu))]
        opened = product.xreplace({e: standing(instructions[e.source], e) for e in bent})
        if (jumping := over_moduli(opened)) != opened:
            swap[product] = jumping
    return body.xreplace(swap) if swap else body


def _summed(instructions: Sequence[Instruction], body: Expr) -> Expr:
    """A body in which sums of named sums are one sum where terms cancel."""
    swap: dict[Expr, Expr] = {}
    for total in body.atoms(sympy.Add):
        terms = [t for term in total.args for t in _opened(instructions, term)]
        whole = sympy.Add(*terms)
        if len(sympy.Add.make_args(whole)) < len(terms) and len(entries(whole)) < len(entries(sympy.Tuple(*terms))):
            swap[total] = whole
    return body.xreplace(swap) if swap else body


def _opened(instructions: Sequence[Instruction], term: Expr) -> tuple[Expr, ...]:
    """The terms of a term that is a multiple of a named sum, or of sums over an axis."""
    for e in sympy.Mul.make_args(term):
        if isinstance(e, AxisSum):
            parts = [t for part in sympy.Add.make_args(e.summand) for t in _opened(instructions, part)]
            return tuple(term / e * AxisSum(t, *e.args[1:]) for t in parts)
        # an entry whose look-up says −1 is 0, whatever its terms are
        plain = isinstance(e, Entry) and e.neuron == OWN and not any(i.has(Lookup) for i in e.indices)
        s = instructions[e.source] if plain else None
        if isinstance(s, OuterNonlin) and not s.slots and s.body.is_Add:
            return tuple(term / e * t for part in standing(s, e).args for t in _opened(instructions, part))
    return (term,)


def _with_powers_before_averages(network: Program) -> Program:
    """The network in which no product of factors that are averaged, and read nowhere else, grows by a power of n.

    Sums stay as they are: what cancels in √n·(tanh(y + s) − tanh(y)) is of the size of its power.
    """
    instructions = list(network.instructions)
    for position, s in enumerate(network):
        growth = _growth(s, network.known.width_symbols)
        readers = [p for p in network.graph.successors(position) if p in network.read]
        if growth == 1 or not readers or not all(isinstance(network[p], Avg) for p in readers):
            continue
        if not {position, *readers}.isdisjoint(network.returns):  # what is returned stays what it is
            continue
        assert isinstance(s, OuterNonlin)
        instructions[position] = replace(s, body=s.body / growth)
        for average in readers:
            for p in network.graph.successors(average):
                reading = instructions[p]
                assert isinstance(reading, Nonlin)  # scalars are read by functions alone
                means = [e for e in entries(reading.body) if e.source == average]
                instructions[p] = replace(reading, body=reading.body.xreplace({e: growth * e for e in means}))
    return network.replace(instructions=tuple(instructions))


def _growth(s: Instruction, widths: frozenset[sympy.Symbol]) -> Expr:
    """The power by which a product of vectors grows with the widths; 1 of all else."""
    one = sympy.S.One
    if not isinstance(s, OuterNonlin) or s.slots:
        return one
    powers = powers_in(s.body, widths)
    held = [f for f in sympy.Mul.make_args(s.body) if f not in powers]
    plain = all(p > 0 for p in powers.values()) and not any(isinstance(f, sympy.Add) for f in held)
    return sympy.Mul(*powers) if powers and plain and any(f.has(Entry) for f in held) else one


def _with_unread_apart(network: Program) -> Program:
    """The network with the terms of its output that no readout multiplies as an instruction."""
    end = network.returns[0]
    s, readouts = network[end], {network.initial_names[name] for name in roles(network).named("readout")}
    if not readouts or not isinstance(s, OuterNonlin) or s.slots:
        return network
    read = readouts.union(*(networkx.descendants(network.graph, r) for r in readouts))
    terms = [t for term in sympy.Add.make_args(s.body) for t in _opened(network.instructions, term)]
    unread = [t for t in terms if read.isdisjoint(e.source for e in entries(t))]
    whole = sympy.Add(*unread)
    if not whole.has(Entry) or isinstance(whole.as_coeff_Mul()[1], Entry):
        return network

    def place(position: int) -> int:
        return position + (position >= end)

    apart = Entry(Integer(end), OWN, *map(axis_symbol, s.axes))
    rest = relocated(sympy.Add(*(t for t in terms if t not in unread)), place)
    instructions = [moved(t, place) for t in network]
    instructions[end] = replace(s, body=apart + rest)
    instructions.insert(end, replace(s, name=f"{s.name}_unread", body=whole))
    return network.rearranged(instructions, place)
