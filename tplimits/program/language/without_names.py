"""A program as its author might have written it: every map stands where it is read, whatever it was called.

    z = s³;  w = sign(z);  avg((w y)²)     is     avg((sign(s³) y)²)

What a name stands for may have no limit where the function that reads it has one: sign(s) with s → 0 has none, and
sign(s)² is 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sympy import Expr, Integer

from tplimits.program.language.compose import Replay
from tplimits.program.language.tracing import Trace
from tplimits.program.nodes.bind import bind
from tplimits.program.nodes.domains import PARTIAL
from tplimits.program.nodes.entries import AxisSum, DataIndex
from tplimits.program.nodes.fuse import instructions_of
from tplimits.program.nodes.kinds import Initial, Nonlin
from tplimits.program.parts import holds

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


class _Again(Replay):
    """A program replayed by itself: everything that it is given is its own."""

    def __init__(self, program: Program) -> None:
        super().__init__(program, Trace(program.name))
        self.prefix = ""
        self.width = {w: w for w in program.widths}
        trace = self.trace
        trace.widths, trace.axes = dict.fromkeys(program.widths), dict.fromkeys(program.all_axes)
        trace.constants, trace.sizes, trace.size_of = map(dict, (program.constants, program.sizes, program.size_of))
        trace.arrays, trace.tables = list(program.arrays), list(program.tables)

    def expr(self, inner: Expr) -> Expr:
        data = {d: DataIndex(Integer(self.made[d.source].uid), *d.indices) for d in inner.atoms(DataIndex)}
        return super().expr(inner.xreplace(data))


def _idle(program: Program) -> list[tuple[int, Expr]]:
    """Maps that no result rests on."""
    return [(p, s.body) for p, s in enumerate(program) if isinstance(s, Nonlin) and p not in program.read]


def without_names(program: Program, refused: str = "no reason was given.") -> Program:
    """The same program without maps that have an instruction for their names alone; others keep theirs.

    `refused` says why it is wanted, where somebody asks for a value by a name that is gone.

    >>> import tplimits as tp
    >>> from tplimits.program.language.trace import program
    >>> @program
    ... def squared(x: tp.Vector, y: tp.Vector):
    ...     w = tp.sign(tp.avg(x))
    ...     z = w * y
    ...     return tp.avg(z * z)
    >>> [str(s.body) for s in without_names(squared) if isinstance(s, Nonlin)]
    ['sign(Entry(2, ·))**2*Entry(1, α)**2']
    """
    again = _Again(program)
    with again.trace.recording():
        for position in range(len(program)):
            again.replay(position)
    uid = [value.uid for value in again.made.values()]
    # sums over an axis are values of their own, as layers of data are: what is asked of them is asked of their limits
    kept = {p for p, s in enumerate(program) if isinstance(s, Nonlin) and holds(s.body, AxisSum)}
    # what nobody reads may have been taken away from itself, which networks do not: √x of a sum with √x − √x
    kept |= {p for p, body in _idle(program) if holds(body, *PARTIAL)}
    again.trace.inherited.update((program[p].name, uid[p]) for p in sorted(kept))
    returned = {program[p].name: uid[p] for p in program.returns}
    instructions, _, where = instructions_of(again.trace, returned)
    place = {p: where[u] for p, u in enumerate(uid) if u in where}
    named = {at: program[p] for p, at in reversed(place.items())}
    written = program.replace(
        instructions=tuple(
            named[at] if isinstance(s, Initial) else replace(s, name=named[at].name)
            for at, s in enumerate(instructions)
        ),
        names={name: place[p] for name, p in program.names.items() if p in place},
        written_out={
            name: f"no limit of `{name}` is derived: `{program.name}` has one with `{name}` written out in what reads "
            f"it, and none with its names: {refused}"
            for name, p in program.names.items()
            if p not in place
        },
        returns=tuple(place[p] for p in program.returns),
        arguments=tuple(place[p] for p in program.arguments),
        inputs=tuple(place[p] for p in program.inputs),
        state=None if program.state is None else place[program.state],
        arrays=tuple(again.trace.arrays),
        tables=tuple(again.trace.tables),
    )
    return bind(written, {})
