"""Arrays for instructions: their names, extents and indices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sympy import Expr, Symbol

from tplimits.errors import ProgramError
from tplimits.program.loops.form import CONSTANT, Array, Read, Statement
from tplimits.program.nodes.entries import NO_NEURON, OWN, DataIndex, Entry, Lookup, axis_symbol
from tplimits.program.nodes.kinds import InitialMatrix

if TYPE_CHECKING:
    from tplimits.program.loops.splitting import Split
    from tplimits.program.nodes.kinds import Instruction
    from tplimits.program.nodes.program import Program
    from tplimits.program.nodes.stated import IndexTable


class Places:
    """The arrays of a program under construction, and what entries are in them."""

    def __init__(self, program: Program, sample: str, parts: Split) -> None:
        self.program, self.sample, self.parts = program, sample, parts
        self.arrays: dict[str, Array] = {}
        self.statements: list[Statement] = []
        self.place: dict[int, str] = {}
        self.extent_of: dict[Symbol, str] = {}
        self.signal = -1
        self._computed: dict[tuple[Expr, tuple[str, ...]], str] = {}
        open_constants = [name for name, value in program.constants.items() if value is None]
        if open_constants:
            name = open_constants[0]
            raise ProgramError(f"the constant `{name}` of `{program.name}` has no value: fix it with .bind({name}=…).")

    # -- arrays and indices -------------------------------------------------------------------

    def declare(self, prefix: str, extents: Iterable[str], role: str, title: str = "", **more: object) -> str:
        """A new array."""
        name = f"{prefix}{len(self.arrays)}"
        self.arrays[name] = Array(name, tuple(extents), role, title, **more)  # type: ignore[arg-type]
        return name

    def _ordered(self, s: Instruction) -> tuple[str, ...]:
        """Axes in the order of storage: that of inputs comes last."""
        return (*(a for a in s.axes if a != self.sample), *(a for a in s.axes if a == self.sample))

    def _neurons(self, s: Instruction) -> tuple[str, ...]:
        if isinstance(s, InitialMatrix):
            return s.rows, s.columns
        return () if s.width is None else (s.width,)

    def _extents(self, s: Instruction) -> tuple[str, ...]:
        return (*(self.program.root_axis(a) for a in self._ordered(s)), *self._neurons(s))

    def _symbols(self, s: Instruction) -> tuple[Symbol, ...]:
        own = (axis_symbol(a) for a in self._ordered(s))
        return (*own, OWN) if s.width is not None else tuple(own)

    def index(self, index: Expr) -> Expr:
        """An index expression on arrays."""
        if isinstance(index, Lookup):
            table = self.program.tables[index.table]
            gaps = bool((table.values < 0).any())
            name = self._constant("t", index.table, table, whole=True, gaps=gaps)
            return Read(Symbol(name), *map(self.index, index.indices))
        if isinstance(index, DataIndex):
            s = self.program[index.source]
            found = dict(zip(s.axes, index.indices, strict=True))
            return Read(Symbol(self.place[index.source]), *(found[a] for a in self._ordered(s)))
        return index

    def _constant(self, prefix: str, number: int, table: IndexTable, **more: object) -> str:
        name = f"{prefix}_{number}"
        if name not in self.arrays:
            extents = tuple(self.program.root_axis(a) for a in table.axes)
            self.arrays[name] = Array(name, extents, CONSTANT, "", table, **more)  # type: ignore[arg-type]
        return name

    def entry(self, entry: Entry) -> Read:
        """An entry of an instruction as one of its array."""
        s = self.program[entry.source]
        found = {a: self.index(i) for a, i in zip(s.axes, entry.indices, strict=True)}
        indices = [found[a] for a in self._ordered(s)]
        if entry.neuron != NO_NEURON:
            indices.append(entry.neuron)
        return Read(Symbol(self.place[entry.source]), *indices)
