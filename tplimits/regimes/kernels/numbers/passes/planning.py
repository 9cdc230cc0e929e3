"""The plan of a recursion: its interpreter is run once on traced arrays, and what it did goes to two tapes.

What depends on one input alone goes to the tape of that input (`Rows`), everything else to the tape of a pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sympy import Expr

from tplimits.program.nodes.functions import BENT
from tplimits.regimes.kernels.numbers.inputs import Inputs, keyed
from tplimits.regimes.kernels.numbers.passes.functions import functions_of, take_bands
from tplimits.regimes.kernels.numbers.passes.plan import KernelPlan
from tplimits.regimes.kernels.numbers.tables.determinants import NotDetermined
from tplimits.regimes.kernels.numbers.tables.extents import entries, largest, sizes_of
from tplimits.regimes.kernels.numbers.tables.interpreter import Tables
from tplimits.regimes.kernels.numbers.tables.rows import Rows
from tplimits.regimes.kernels.numbers.tables.tape import Tape, TapeSchedule

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables


def plan_for(
    derivation: KernelTables,
    one: Inputs,
    other: Inputs,
    constants: Mapping[Expr, float],
    kernels: tuple[str, ...],
    looped: bool = False,
) -> KernelPlan:
    """The plan of a recursion for these sizes and constants, remembered.

    Without places it carries determinants along, which miss no pair; the plan for loops over many pairs (`looped`) has
    gaps, which cost less.
    """
    known: dict[Any, KernelPlan] = derivation.remembered["plans"]
    key = (keyed(one.sizes), keyed(other.sizes), keyed(constants), kernels, looped)
    if key not in known:
        try:
            if looped or not is_plain(derivation):
                raise NotDetermined
            known[key] = _made(derivation, (one, other), constants, kernels, False, True)
        except NotDetermined:
            known[key] = _made(derivation, (one, other), constants, kernels, True, False)
    return known[key]


def is_plain(derivation: KernelTables) -> bool:
    """Whether a recursion has no finite axes."""
    return not derivation.axes and not any(t.left or t.right for t in derivation.needed)


def _made(
    derivation: KernelTables,
    sides: tuple[Inputs, Inputs],
    constants: Mapping[Expr, float],
    kernels: tuple[str, ...],
    banded: bool,
    determined: bool,
) -> KernelPlan:
    """A plan; NotDetermined where determinants are to be carried along and more than statements would be needed."""
    one, other = sides
    demand, kinked = derivation.demand, any(t.definition.has(*BENT) for t in derivation.needed)
    shared: dict[str, Any] = {"demand": demand, "gapped": kinked, "determined": determined, "banded": banded}

    def alone(inputs: Inputs) -> Tables:
        return Tables(derivation, (inputs, inputs), constants, tape=Tape(), **shared)

    first = alone(one)
    second = first if dict(one.sizes) == dict(other.sizes) else alone(other)
    pair = Tape()
    rows = Rows({1: first, 2: second}, pair)
    both = Tables(derivation, (one, other), constants, tape=pair, rows=rows, **shared)
    exprs = [getattr(demand, k) for k in kernels]
    results = [both.frame(1, 2).mean(e) for e in exprs]
    mine = [first.frame(1, 1).mean(e) for e in exprs]
    rows.outputs[1] += mine
    if second is first:
        rows.outputs[2] = rows.outputs[1]
    schedule = pair.schedule([*results, *(w for w, _ in pair.watched)])
    functions = [functions_of(schedule, pair.labels, sizes_of(schedule, pair, both), (1, 2), len(kernels))]
    statements = functions[0].statements if determined else None
    if determined and statements is None:
        raise NotDetermined
    own: dict[int, TapeSchedule] = {}
    watched: dict[int, int] = {}
    for side, tables in ((1, first), (2, second)):
        assert tables.tape is not None
        flags = [w for w, _ in tables.tape.watched]
        own[side] = own[1] if side == 2 and second is first else tables.tape.schedule([*rows.outputs[side], *flags])
        watched[side] = len(flags)
        if side == 2 and second is first:
            functions.append(functions[1])
        else:
            sizes = sizes_of(own[side], tables.tape, tables)
            functions.append(functions_of(own[side], tables.tape.labels, sizes, (1,), len(rows.outputs[side])))
    if banded and not take_bands(functions):
        return _made(derivation, sides, constants, kernels, False, determined)
    return KernelPlan(
        schedule,
        len(kernels),
        own,
        {s: len(o) for s, o in rows.outputs.items()},
        largest(schedule, pair, both),
        max(largest(own[s], t.tape, t) for s, t in ((1, first), (2, second))),
        (both, first, second),
        [p for _, p in pair.watched],
        watched,
        len(statements.writer.assignments) if statements else entries(schedule, pair, both),
        {side: entries(own[side], tables.tape, tables) for side, tables in ((1, first), (2, second)) if tables.tape},
        functions=functions,
        statements=statements,
    )
