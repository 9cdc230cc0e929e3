"""One spelling of a network, so that its verdict does not depend on what a program gives a name to.

a jump              |a|/a is sign(a), relu(a)/a is step(a)
one at all neurons  a vector that is a scalar is read as that scalar
written again       a vector that is an instruction is read there, wherever a body holds it
cancelled           a sum of sums is one sum, where terms of them cancel: y − (y + b) is −b
before averages     growing powers of n, and scalars, stand before the average of what they multiply: Avg(√n q k) is
                    √n·Avg(q k), of order 1 where q k is centred
what is not read    the terms of the output that no readout multiplies are a vector of their own, a feature
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import networkx
import sympy
from sympy import Expr, Integer

from tplimits.law.hypotheses.absolutes import over_moduli
from tplimits.program.nodes.entries import NO_NEURON, OWN, AxisSum, Entry, Lookup, axis_symbol, entries, relocated
from tplimits.program.nodes.functions import relu
from tplimits.program.nodes.kinds import (
    Avg,
    Instruction,
    Nonlin,
    OuterNonlin,
    ScalarNonlin,
    made_of,
    moved,
    place_of,
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
    return _with_unread_apart(network)


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


def with_factors_before_averages(network: Program) -> Program:
    """The network in which growing powers of n, and scalars, stand before the averages of what they multiply.

    They do where averages alone read what holds them.  The product keeps the name of the average.
    """
    factors: dict[int, Expr] = {}
    means: list[int] = []
    for position, s in enumerate(network):
        readers = [*network.graph.successors(position)]
        read_by_averages = readers and all(isinstance(network[p], Avg) for p in readers)
        if read_by_averages and position not in network.returns:
            factor = _common_factor(s, network.known.width_symbols)
            if factor != 1:
                factors[position] = factor
                means += readers
    if not means:
        return network
    means.sort()

    def place(position: int) -> int:
        return position + bisect.bisect_right(means, position)

    instructions: list[Instruction] = []
    for position, s in enumerate(network):
        if position in factors:
            assert isinstance(s, OuterNonlin)
            body = sympy.Add(*(t / factors[position] for t in sympy.Add.make_args(s.body)))
            s = replace(s, name=_apart(network, s.name), body=body)
        mean = position in means
        instructions.append(moved(replace(s, name=_apart(network, s.name)) if mean else s, place))
        if mean:
            assert isinstance(s, Avg)
            here = Entry(Integer(place(position) - 1), NO_NEURON, *map(axis_symbol, s.axes))
            vector = s.operand.source
            factor = factors[vector].xreplace(place_of(s.operand, network[vector].axes))
            instructions.append(ScalarNonlin(s.name, s.axes, s.line, body=relocated(factor, place) * here))
    names = {name: p for name, p in network.names.items() if p not in factors}
    return network.replace(names=names).rearranged(instructions, place)


def _apart(network: Program, name: str) -> str:
    """What is called no more by its name, without its factor: no value of the program has it."""
    found = f"_{name.strip('_')}_apart"
    while found in network.names:
        found += "_"
    return found


def _common_factor(s: Instruction, widths: frozenset[sympy.Symbol]) -> Expr:
    """What multiplies every term of a function of vectors and is the same at all neurons; 1 where there is nothing."""
    if not isinstance(s, OuterNonlin) or s.slots:
        return sympy.S.One
    found = {_alike(term, widths) for term in sympy.Add.make_args(s.body)}
    return found.pop() if len(found) == 1 else sympy.S.One


def _alike(term: Expr, widths: frozenset[sympy.Symbol]) -> Expr:
    powers = powers_in(term, widths)
    factors = [f for f, power in powers.items() if power > 0] if all(p > 0 for p in powers.values()) else []
    held = [f for f in sympy.Mul.make_args(term) if f not in powers]
    scalars = [f for f in held if f.has(Entry) and all(e.neuron == NO_NEURON for e in entries(f))]
    return sympy.Mul(*factors, *scalars) if any(f.has(Entry) for f in held if f not in scalars) else sympy.S.One


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
