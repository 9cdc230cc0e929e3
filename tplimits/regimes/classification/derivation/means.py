"""Which means vanish, asked of the kets of the total program: forward and backward.

An average over n neurons is of the order of what is averaged, or n^(−½) of it where the mean is zero.  Whether it is
zero is derived by the recursion of kernels: at the limits of all scalars, and with scalars of any value, since training
moves scalars, and what cancels between two of them at the start (the mean in a LayerNorm) does not cancel then.
Whether one at the start is zero in disguise is judged by numbers (`disguise`).  Large programs, as models of PyTorch
make them, are judged by symmetry alone (`parity`), which takes no expectation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import networkx
import sympy
from sympy import Expr, Integer

from tplimits.errors import NoLimitError
from tplimits.program.network.tangent import Tangent
from tplimits.program.network.zeros import total_of
from tplimits.program.nodes.entries import OWN, Entry, axis_symbol, constant_symbol, entries
from tplimits.program.nodes.kinds import (
    Avg,
    InitialMatrix,
    InitialScalar,
    Instruction,
    Nonlin,
    OuterNonlin,
    ScalarNonlin,
)
from tplimits.program.nodes.scale import at_infinity
from tplimits.program.parts import found as found_in
from tplimits.regimes.classification.derivation.disguise import disguised, vanishes_at_generic_data
from tplimits.regimes.classification.derivation.near_limits import JUMPS
from tplimits.regimes.classification.derivation.parity import parities
from tplimits.regimes.kernels.derivation.leaves import ONE_SIDE, Of
from tplimits.regimes.kernels.derivation.recursion import Recursion

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: total programs of more instructions are judged by symmetry
LARGEST = 60


@dataclass(frozen=True)
class Means:
    """What vanishes in a total program, by position: averages, and what is returned, whose entries are summed.

    `centred` have the mean zero at the start, `always` whatever values scalars have.  `zeros` are scalars of the
    network whose limit is zero.  `falls` holds the power of 1/n that averages have at the start beside what is
    averaged, where the orders of all scalars in it are counted.  `unknown` holds why a mean is not known; it is taken
    not to vanish.  `limits` are those of the network's scalars that are numbers whatever data are.
    """

    centred: frozenset[int]
    always: frozenset[int]
    zeros: frozenset[int] = frozenset()
    falls: Mapping[int, Fraction] = field(default_factory=dict, compare=False)
    unknown: Mapping[int, str] = field(default_factory=dict, compare=False)
    limits: Mapping[int, Expr] = field(default_factory=dict, compare=False)


@lru_cache(maxsize=32)
def means_of(network: Program, starts: tuple[tuple[str, Fraction], ...]) -> Means:
    """The means of a network and of its gradients; `starts` are powers of 1/n of weights that are small at first."""
    program = total_of(network).program
    sums = {p: s.operand.source for p, s in enumerate(program) if isinstance(s, Avg)}
    # what is returned is summed over neurons without an Avg of its own
    sums[network.returns[0]] = network.returns[0]
    if len(program) > LARGEST:
        return _by_symmetry(network, program, dict(starts))
    always, unknown = _for_any_scalars(program, sums)
    limits, silent = _limits(program)
    seen = _by_symmetry(network, program, dict(starts))
    falls = {p: fall for p, fall in seen.falls.items() if p not in always}
    # what no expectation tells a symmetry may: what they have judged not to vanish stays so
    always |= seen.always & unknown.keys()
    unknown = {p: why for p, why in unknown.items() if p not in seen.centred}
    start = frozenset(p for p in sums if p not in silent and _is_seen_to_vanish(limits, p)).union(falls)
    start |= seen.centred & silent
    end = network.returns[0]
    # the output decides about a_out: worth a number where algebra sees no zero
    if end not in always | start and vanishes_at_generic_data(network, end):
        start |= {end}
    scalars = {p: value for p, value in limits.scalars.items() if p < len(network)}
    computed = {p: value for p, value in scalars.items() if isinstance(network[p], ScalarNonlin)}
    zeros = frozenset(p for p, value in computed.items() if at_infinity(value) == 0) | seen.zeros & silent
    # integrals of all others that could be zero without being seen to
    hidden = disguised(network, scalars.keys() - zeros - always - start)
    averages = frozenset(p for p in hidden if isinstance(network[p], Avg))
    zeros, start = zeros | hidden - averages, start | averages
    settled = _settled(network, {**scalars, **dict.fromkeys(hidden, sympy.S.Zero)})
    small = {network.initial_names[name] for name, _ in starts}
    # weights that start small take scalars away from the limits of natural ones
    settled = {p: value for p, value in settled.items() if not small & networkx.ancestors(network.graph, p)}
    unknown = {p: why for p, why in unknown.items() if p not in start}
    return Means(always | start, always, zeros, falls, unknown, settled)


def _settled(network: Program, scalars: Mapping[int, Expr]) -> dict[int, Expr]:
    """The limits that are numbers whatever data are, those of functions of other such scalars among them."""
    found: dict[int, Expr] = {}
    for p, limit in sorted(scalars.items()):
        s, value = network[p], limit
        if isinstance(s, ScalarNonlin) and not limit.is_number and all(e.source in found for e in entries(s.body)):
            value = s.body.xreplace({e: found[e.source] for e in entries(s.body)})
            value = sympy.nan if _at_their_jump(s.body, found) else value
        if value.is_number and value.is_real:
            found[p] = value
    return found


def _by_symmetry(network: Program, program: Program, starts: Mapping[str, Fraction]) -> Means:
    """What vanishes because weights are as likely as their negatives; all other means are taken not to vanish."""
    free, started = (parities(program, at_start, starts) for at_start in (False, True))
    sums = {p: s.operand for p, s in enumerate(program) if isinstance(s, Avg)}
    sums[network.returns[0]] = _returned(network)
    always = frozenset(p for p, operand in sums.items() if free.vanishes(operand))
    falls = {p: fall for p, operand in sums.items() if p not in always and (fall := started.falls(operand))}
    zeros = (p for p, s in enumerate(network) if isinstance(s, ScalarNonlin) and started.of(s.body).order > 0)
    end = network.returns[0]
    why = f"Programs of more than {LARGEST} instructions are judged by symmetry, which does not tell of `{{}}`."
    unknown = {} if end in always or end in falls else {end: why.format(network[end].name)}
    return Means(always.union(falls), always, frozenset(zeros), falls, unknown)


def _returned(network: Program) -> Entry:
    """What is returned, at its own axes."""
    position = network.returns[0]
    return Entry(Integer(position), OWN, *map(axis_symbol, network[position].axes))


def _limits(program: Program) -> tuple[Recursion, frozenset[int]]:
    """The recursion at the limits of scalars, and what it has none for: what diverges, and all that is made of it.

    Powers of n in the program are constants: what is small because of them alone has no mean that vanishes.
    """
    swap = _constants(program)
    instructions = tuple(replace(s, body=s.body.xreplace(swap)) if isinstance(s, Nonlin) else s for s in program)
    program = _declared(program, swap, instructions=instructions)
    found, silent = _walked(program)
    jumping = {j for s in program if isinstance(s, Nonlin) for j in _at_their_jump(s.body, found.scalars)}
    if jumping:  # either side, and not the value in the middle
        swap = {j: constant_symbol(f"jump_{i}_as_a_constant") for i, j in enumerate(sorted(jumping, key=str))}
        changed = (s.changed(lambda body: body.xreplace(swap)) for s in program)
        found, silent = _walked(_declared(program, swap, instructions=tuple(changed)))
    return found, silent


def _at_their_jump(body: Expr, limits: Mapping[int, Expr]) -> tuple[Expr, ...]:
    """Signs and steps in a body of scalars that tend to 0."""
    known = {e: limits[e.source] for e in entries(body) if e.source in limits and limits[e.source].is_number}
    jumps = [j for j in found_in(body, *JUMPS) if entries(j) and known.keys() >= {*entries(j)}]
    return tuple(j for j in jumps if j.args[0].xreplace(known) == 0)


def _walked(program: Program) -> tuple[Recursion, frozenset[int]]:
    found, silent = Recursion(program, Tangent(program, {}, len(program)), outputs=()), set[int]()
    for position, s in enumerate(program):
        try:
            if not silent.isdisjoint(s.operands):
                silent.add(position)
            else:
                found.walk(position)
        except NoLimitError:
            silent.add(position)
    return found, frozenset(silent)


def _for_any_scalars(program: Program, sums: Mapping[int, int]) -> tuple[frozenset[int], dict[int, str]]:
    """The sums that vanish for all values of scalars, and those where this is not known."""
    try:
        state = _with_free_scalars(program, sums)
        return frozenset(p for p in sums if _vanishes(state, p, program)), {}
    except NoLimitError:
        found, unknown = set(), {}
    for p in sums:  # one by one, since one that is refused stops the walk
        try:
            if _vanishes(_with_free_scalars(program, {p: sums[p]}), p, program):
                found.add(p)
        except NoLimitError as refused:
            unknown[p] = str(refused)
    return frozenset(found), unknown


def _is_seen_to_vanish(state: Recursion, position: int) -> bool:
    """Whether a mean is zero and the recursion offers it."""
    try:
        return _vanishes(state, position)
    except NoLimitError:
        return False


def _vanishes(state: Recursion, position: int, program: Program | None = None) -> bool:
    """Whether the mean of what is averaged, or returned, is zero."""
    s = (program or state.program)[position]
    if isinstance(s, Avg):
        return bool(state.mean(state.translated(s.operand)) == 0)
    return bool(state.mean(Of(Integer(position), ONE_SIDE, *map(axis_symbol, s.axes))) == 0)


def _with_free_scalars(program: Program, sums: Mapping[int, int]) -> Recursion:
    """The recursion with all scalars given from outside, and powers of n as constants; what no sum needs is left out.

    Means over other neurons, E ψ(x_α; x_β) over β, are functions of x_α, as ψ(x_α; c) is for any c: a constant stands
    for the neuron β, so that what vanishes for all of them vanishes.
    """
    needed = program.behind(sums.values())
    swap = _constants(program)
    others: dict[Expr, Expr] = {}
    instructions: list[Instruction] = []
    given = []
    for position, s in enumerate(program):
        is_scalar = isinstance(s, (Avg, ScalarNonlin, InitialScalar))
        # matrices stay: products that are needed refer to them by position
        if is_scalar or (position not in needed and not isinstance(s, InitialMatrix)):
            given.append(position)
            instructions.append(InitialScalar(s.name, s.axes, s.line))
        else:
            if isinstance(s, OuterNonlin):
                for e in (e for e in entries(s.body) if e.neuron in s.slots):
                    others.setdefault(e, constant_symbol(f"entry_{len(others)}_as_a_constant"))
                body = s.body.xreplace({**swap, **others})
                s = replace(s, body=body, slots=(), slot_names=(), slot_widths=())
            instructions.append(s)
    free = _declared(program, {**swap, **others}, instructions=tuple(instructions), inputs=tuple(given))
    return Recursion(free, Tangent(free, {}, len(free)))


def _constants(program: Program) -> dict[Expr, Expr]:
    """A constant for each width."""
    return {w: constant_symbol(f"{w}_as_a_constant") for w in program.known.width_symbols}


def _declared(program: Program, swap: Mapping[Expr, Expr], **changed: Any) -> Program:
    """The program with what a swap writes among its constants: programs that are drawn from it are legal ones."""
    return program.replace(constants={**program.constants, **{str(c): None for c in swap.values()}}, **changed)
