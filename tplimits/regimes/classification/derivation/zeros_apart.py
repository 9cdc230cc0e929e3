"""Scalars that are zero in disguise as instructions of their own, so that powers of n are counted for them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Integer

from tplimits.program.network.cancelling import sums_to_zero
from tplimits.program.nodes.entries import NO_NEURON, OWN, AxisSum, Entry, axis_symbol, relocated
from tplimits.program.nodes.kinds import Avg, Instruction, MatMul, OuterNonlin, ScalarNonlin, moved
from tplimits.regimes.classification.derivation.disguise import is_difference, subtracts, vanishes_at_generic_data

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def with_zeros_apart(network: Program) -> Program:
    """The network with differences of scalars that are zero in disguise as scalars of their own, for their powers.

    Those that are 0 at every width are left out.

    >>> import tplimits as tp
    >>> @tp.network
    ... def gated(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    ...     x = tp.sum(U * ξ, over="d")
    ...     return v * x * (tp.avg(tp.sigmoid(x)) - 0.5)
    >>> with_zeros_apart(gated).instructions[-2].body, with_zeros_apart(gated).instructions[-1].body
    (Entry(5, ·) - 1/2, Entry(2, α)*Entry(3, α)*Entry(6, ·))
    """
    places: list[int] = []
    instructions: list[Instruction] = []
    zeros: set[int] = set()
    for position, written in enumerate(network):
        if isinstance(written, (OuterNonlin, ScalarNonlin)):
            # powers of n beside what is 0 multiply nothing
            none = {e: sympy.S.Zero for e in written.body.atoms(Entry) if e.source in zeros}
            none |= _cancelled(network, position, written)
            written = replace(written, body=written.body.xreplace(none)) if none else written
            zeros |= {position} if written.body == 0 else set()
        collected = _collected(network, written)
        s = whole = moved(collected, places.__getitem__)
        if isinstance(s, (Avg, ScalarNonlin)) and subtracts(network, written) and sums_to_zero(network, position):
            zeros.add(position)
            s = ScalarNonlin(s.name, s.axes, s.line, body=sympy.S.Zero)
        for difference in _differences(network, collected):
            own = tuple(a for a in s.axes if axis_symbol(a) in difference.free_symbols)
            apart = ScalarNonlin(f"{s.name}_{len(instructions)}", own, s.line, body=difference)
            if not vanishes_at_generic_data(network, position, apart):
                continue
            body, place = relocated(difference, places.__getitem__), sympy.S.Zero
            if not sums_to_zero(network, position, apart):
                place = Entry(Integer(len(instructions)), NO_NEURON, *map(axis_symbol, own))
                instructions.append(replace(apart, body=body))
            assert isinstance(s, (OuterNonlin, ScalarNonlin))
            s = replace(s, body=s.body.xreplace({body: place}))
        if s is whole:
            s = moved(written, places.__getitem__)
        places.append(len(instructions))
        instructions.append(s)
    if tuple(instructions) == network.instructions:
        return network
    return network.rearranged(instructions, places.__getitem__)


def _cancelled(network: Program, position: int, s: Instruction) -> dict[Expr, Expr]:
    """Sums in a body without terms that are 0 together at every width, as W (s x) − s W x beside one power of n."""
    found: dict[Expr, Expr] = {}
    if not isinstance(s, OuterNonlin):
        return found
    widths = network.known.width_symbols
    bound = {node.bound: node.axis for node in s.body.atoms(AxisSum)}
    for total in sorted(s.body.atoms(sympy.Add), key=sympy.default_sort_key):
        parts: dict[Expr, list[Expr]] = {}
        for term in total.args:
            parts.setdefault(term.as_independent(*widths, as_Add=False)[1], []).append(term)
        for power, terms in parts.items():
            part = sympy.Add(*(term / power for term in terms))
            images = [e for e in part.atoms(Entry) if e.neuron == OWN and isinstance(network[e.source], MatMul)]
            # without images, what vanishes at every width is 0 by algebra
            # what stands in a sum over an axis is asked for at all of its indices
            inside = {i: axis_symbol(a) for i, a in bound.items() if i in part.free_symbols}
            axes = (*s.axes, *(bound[i] for i in inside))
            if not (images and part.is_Add and is_difference(part) and len({*axes}) == len(axes)):
                continue
            body = part.xreplace(inside) ** 2  # of squares: every entry is 0
            if sums_to_zero(network, position, replace(s, body=body, axes=axes)):
                found[total] = sympy.Add(found.get(total, total), *(-term for term in terms))
    return found


def _collected(network: Program, s: Instruction) -> Instruction:
    """The instruction with one product for all terms of a sum that hold the same vectors: x a − x b as x (a − b)."""
    if not isinstance(s, (OuterNonlin, ScalarNonlin)):
        return s
    swap: dict[Expr, Expr] = {}
    for total in s.body.atoms(sympy.Add):
        products: dict[Expr, list[Expr]] = {}
        for term in sympy.Add.make_args(_with_products(network, total)):
            vectors = [e for e in term.atoms(Entry) if network[e.source].width is not None]
            scalar, vector = term.as_independent(*vectors, as_Add=False) if vectors else (term, sympy.S.One)
            products.setdefault(vector, []).append(scalar)
        if any(vector != 1 and len(scalars) > 1 for vector, scalars in products.items()):
            swap[total] = sympy.Add(*(vector * sympy.Add(*scalars) for vector, scalars in products.items()))
    return replace(s, body=s.body.xreplace(swap)) if swap else s


def _with_products(network: Program, total: Expr) -> Expr:
    """A sum in which products of vectors with scalars stand themselves, where they were read by a name."""
    swap: dict[Expr, Expr] = {}
    for e in (f for term in total.args for f in sympy.Mul.make_args(term) if isinstance(f, Entry) and f.neuron == OWN):
        inner = network[e.source]
        factors = inner.body.args if isinstance(inner, OuterNonlin) and inner.body.is_Mul and not inner.slots else ()
        if any(isinstance(f, Entry) and f.neuron == NO_NEURON for f in factors):
            at = {axis_symbol(a): i for a, i in zip(inner.axes, e.indices, strict=True)}
            swap[e] = sympy.Mul(*factors).xreplace(at)
    return total.xreplace(swap)


def _differences(network: Program, s: Instruction) -> list[Expr]:
    """Differences of scalars that a body holds beside others, the longest first."""
    if not isinstance(s, (OuterNonlin, ScalarNonlin)):
        return []
    free = {axis_symbol(a) for a in s.axes}
    # (cos s − 1)/s² is counted as one function of s
    divided = {e for p in s.body.atoms(sympy.Pow) if p.exp.is_negative for e in p.base.atoms(Entry)}
    return sorted(
        (
            total
            for total in s.body.atoms(sympy.Add)
            if total != s.body
            and divided.isdisjoint(total.atoms(Entry))
            and is_difference(total)
            and total.free_symbols <= {*free, NO_NEURON}
            if total.has(Entry) and all(network[e.source].width is None for e in total.atoms(Entry))
        ),
        key=lambda total: (-total.count_ops(), sympy.default_sort_key(total)),
    )
