"""Quantities of one input each, by tapes that are remembered."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from sympy import Expr

from tplimits.regimes.kernels.derivation.leaves import on_first
from tplimits.regimes.kernels.numbers.inputs import Inputs, keyed
from tplimits.regimes.kernels.numbers.tables.interpreter import Tables
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled
from tplimits.regimes.kernels.numbers.tables.places import batch
from tplimits.regimes.kernels.numbers.tables.tape import Tape, TapeSchedule

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables


def alone(
    derivation: KernelTables, exprs: tuple[Expr, ...], inputs: Inputs, constants: Mapping[Expr, float]
) -> list[Labelled]:
    """Expressions of input 1 as arrays over all inputs."""
    known: dict[Any, tuple[Tables, TapeSchedule]] = derivation.remembered["alone"]
    key = (exprs, keyed(inputs.sizes), keyed(constants))
    if key not in known:
        tables = Tables(derivation, (inputs, inputs), constants, tape=Tape())
        assert tables.tape is not None
        known[key] = tables, tables.tape.schedule([tables.frame(1, 1).value(on_first(e)) for e in exprs])
    tables, schedule = known[key]
    return schedule.run(partial(data_of, tables, inputs))


def data_of(tables: Tables, inputs: Inputs, leaf: Any) -> Labelled:
    """What a tape reads of the data."""
    _, source, _ = leaf
    axes = tables.derivation.recursion.program[source].axes
    return Labelled(inputs.arrays[source], (batch(1), *axes))
