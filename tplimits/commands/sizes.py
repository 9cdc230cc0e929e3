"""Sizes that a program leaves no choice of: `W.sel(layer=0)`, …, `W.sel(layer=11)` are all there is of `layer`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from sympy import Expr

from tplimits.program.nodes.entries import axis_symbol, entries
from tplimits.program.nodes.kinds import InitialMatrix, InitialVector, MatMul

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def inferred(program: Program) -> dict[str, int]:
    """Open axes of which members 0, …, k are chosen by number and no other, with k + 1.

    Not where an axis is summed over, looked up, or on anything that is computed: any size from k + 1 on would do there.
    """
    found = {}
    for axis in program.all_axes:
        holders = [i for i, s in enumerate(program.instructions) if axis in s.axes]
        if program.size(axis) is not None or not all(_is_parameter(program.instructions[i]) for i in holders):
            continue
        chosen = [index for i in holders for index in _read(program, i, program.instructions[i].axes.index(axis))]
        numbers = {int(i) for i in chosen if i.is_Integer}
        if chosen and all(i.is_Integer for i in chosen) and numbers == set(range(len(numbers))):
            found[axis] = len(numbers)
    return found


def _is_parameter(s: Any) -> bool:
    return isinstance(s, (InitialMatrix, InitialVector))


def _read(program: Program, source: int, place: int) -> Iterator[Expr]:
    """The indices at which an axis of an initial matrix or vector is read."""
    for s in program.instructions:
        if isinstance(s, MatMul) and s.matrix == source:
            yield s.matrix_indices[place]
        for field in fields(s):
            value = getattr(s, field.name)
            if isinstance(value, Expr):
                yield from (e.indices[place] for e in entries(value) if e.source == source)
    if source in program.returns:
        yield axis_symbol(program.instructions[source].axes[place])
