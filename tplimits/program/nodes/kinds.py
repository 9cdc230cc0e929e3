"""The instructions of a Ne⊗or⊤ program (Yang & Littwin, Def. 2.6.1).

A program is a flat tuple of them; an instruction refers to earlier ones by position.  Six
kinds exist: three of initial data (`InitialMatrix`, `InitialVector`, `InitialScalar`) and
`MatMul`, `OuterNonlin`, `Avg`; `ScalarNonlin`, a function of scalars alone, is the shorthand of
Lemma 2.6.2.  Finite named axes make every instruction a family.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.program.nodes.entries import Entry, sources
from tplimits.program.nodes.laws import NORMAL, Law


@dataclass(frozen=True)
class Line:
    """The place in the user's source an instruction comes from.

    >>> print(Line("mlp.py", 7, "h = W @ x"))
    mlp.py, line 7: `h = W @ x`
    """

    file: str = ""
    number: int = 0
    text: str = ""

    def __str__(self) -> str:
        if not self.number:
            return "no source line"
        where = f"{self.file}, line {self.number}" if self.file else f"line {self.number}"
        return f"{where}: `{self.text}`" if self.text else where


@dataclass(frozen=True)
class Instruction:
    """What every instruction has: a name to print, finite axes, and the line it comes from."""

    name: str
    axes: tuple[str, ...]
    line: Line = field(default=Line(), compare=False, repr=False)

    @property
    def width(self) -> str | None:
        """The width the entries run over; None for a scalar and for a matrix."""
        return None

    @property
    def operands(self) -> tuple[int, ...]:
        """Positions of the instructions this one reads, each once, in increasing order."""
        return ()


@dataclass(frozen=True)
class InitialMatrix(Instruction):
    """A matrix with `rows` × `columns` iid N(0, 1/columns) entries, one per index of the axes."""

    rows: str = "n"
    columns: str = "n"


@dataclass(frozen=True)
class InitialVector(Instruction):
    """A vector with iid entries of the given law, one per index of the axes."""

    over: str = "n"
    law: Law = NORMAL

    @property
    def width(self) -> str:
        return self.over


@dataclass(frozen=True)
class InitialScalar(Instruction):
    """A number given from outside; `value` is its default, `law` that of its draws where nothing is given.

    Data with `of` are indices of that axis, and are read as indices alone.
    """

    value: Expr | None = None
    of: str | None = None
    law: Law = NORMAL


@dataclass(frozen=True)
class MatMul(Instruction):
    """W x, or Wᵀ x, entry by entry along the finite axes (indices of both are index expressions)."""

    matrix: int = 0
    transposed: bool = False
    matrix_indices: tuple[Expr, ...] = ()
    operand: Entry | None = None
    over: str = "n"

    @property
    def width(self) -> str:
        return self.over

    @property
    def operands(self) -> tuple[int, ...]:
        assert self.operand is not None
        return tuple(sorted({self.matrix, *sources(self.operand)}))


@dataclass(frozen=True)
class OuterNonlin(Instruction):
    """y_α = mean over β1..βr of body(α, β1, ..., βr); order r + 1.

    `slots` are the averaged neuron indices as they stand in the body, `slot_names` what the user
    called them, `slot_widths` the widths they run over.
    """

    body: Expr = sympy.S.Zero
    slots: tuple[Symbol, ...] = ()
    slot_names: tuple[str, ...] = field(default=(), compare=False)
    slot_widths: tuple[str, ...] = ()
    over: str = "n"

    @property
    def width(self) -> str:
        return self.over

    @property
    def order(self) -> int:
        return 1 + len(self.slots)

    @property
    def operands(self) -> tuple[int, ...]:
        return tuple(sorted(sources(self.body)))


@dataclass(frozen=True)
class Avg(Instruction):
    """θ = (1/n) Σ_α x_α."""

    operand: Entry | None = None
    over: str = "n"

    @property
    def operands(self) -> tuple[int, ...]:
        assert self.operand is not None
        return tuple(sorted(sources(self.operand)))


@dataclass(frozen=True)
class ScalarNonlin(Instruction):
    """A function of scalars alone."""

    body: Expr = sympy.S.Zero

    @property
    def operands(self) -> tuple[int, ...]:
        return tuple(sorted(sources(self.body)))


@dataclass(frozen=True, eq=False)
class IndexTable:
    """A constant array over finite axes: numbers of a program, or integer look-ups."""

    values: numpy.ndarray
    axes: tuple[str, ...]

    def __post_init__(self) -> None:
        self.values.setflags(write=False)

    @cached_property
    def largest(self) -> float:
        """Its largest entry."""
        return float(self.values.max())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexTable) or self.axes != other.axes or self.values.dtype != other.values.dtype:
            return False
        return numpy.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.axes, self.values.shape, (self.values + 0).tobytes()))  # + 0: −0.0 equals 0.0
