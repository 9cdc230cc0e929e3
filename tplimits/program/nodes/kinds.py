"""The instructions of a Ne⊗or⊤ program (Yang & Littwin, Def. 2.6.1).

A program is a flat tuple of them; an instruction refers to earlier ones by position.  Six
kinds exist: three of initial data (`InitialMatrix`, `InitialVector`, `InitialScalar`) and
`MatMul`, `OuterNonlin`, `Avg`; `ScalarNonlin`, a function of scalars alone, is the shorthand of
Lemma 2.6.2.  Finite named axes make every instruction a family.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

import sympy
from sympy import Expr, Symbol

from tplimits.program.nodes.entries import NO_NEURON, OWN, Entry, axis_symbol, entries, relocated, sources, with_names
from tplimits.program.nodes.laws import NORMAL, Law
from tplimits.program.nodes.stated import Line

#: averaged indices up to which all orders of averaging are recognised as one
_SLOTS = 4


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
        return () if isinstance(self, Initial) else tuple(sorted(sources(made_of(self))))

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """The expressions that numbers of the program stand in."""
        return ()

    def changed(self, change: Callable[[Expr], Expr]) -> Self:
        """The instruction with something done to its body, or to its operand; initial values have none."""
        if isinstance(self, Initial):
            return self
        part = "body" if isinstance(self, Nonlin) else "operand"
        return replace(self, **{part: change(made_of(self))})


@dataclass(frozen=True)
class Initial(Instruction):
    """What a program is given: it reads nothing, and has a law where it is drawn."""

    law: Law = NORMAL


@dataclass(frozen=True)
class InitialMatrix(Initial):
    """A matrix with `rows` × `columns` iid entries ζ/√columns, one per index of the axes; ζ is N(0, 1) unless told.

    `law` is that of ζ, with mean 0 and variance 1.
    """

    rows: str = "n"
    columns: str = "n"


@dataclass(frozen=True)
class InitialVector(Initial):
    """A vector with iid entries of the given law, one per index of the axes."""

    over: str = "n"

    @property
    def width(self) -> str:
        return self.over

    @property
    def expressions(self) -> tuple[Expr, ...]:
        return self.law.mean, self.law.std

    @property
    def turns(self) -> bool:
        """Whether rotations of the neurons leave its law as it is."""
        return self.law.shape == NORMAL.shape and self.law.mean == 0


@dataclass(frozen=True)
class InitialScalar(Initial):
    """A number given from outside; `value` is its default, `law` that of its draws where nothing is given.

    Data with `of` are indices of that axis, and are read as indices alone.  One that is `scheduled` is given anew at
    every step of training, and is no parameter.
    """

    value: Expr | None = None
    of: str | None = None
    scheduled: bool = False

    @property
    def expressions(self) -> tuple[Expr, ...]:
        return () if self.value is None else (self.value,)


@dataclass(frozen=True)
class MatMul(Instruction):
    """W x, or Wᵀ x, entry by entry along the finite axes (indices of both are index expressions)."""

    matrix: int = 0
    transposed: bool = False
    matrix_indices: tuple[Expr, ...] = ()
    operand: Entry = field(kw_only=True)
    over: str = "n"

    @property
    def width(self) -> str:
        return self.over

    @property
    def operands(self) -> tuple[int, ...]:
        return tuple(sorted({self.matrix, *super().operands}))


@dataclass(frozen=True)
class Nonlin(Instruction):
    """A function of entries, written as its body."""

    body: Expr = sympy.S.Zero

    @property
    def expressions(self) -> tuple[Expr, ...]:
        return (self.body,)


@dataclass(frozen=True)
class OuterNonlin(Nonlin):
    """y_α = mean over β1..βr of body(α, β1, ..., βr); order r + 1.

    `slots` are the averaged neuron indices as they stand in the body, `slot_names` what the user
    called them, `slot_widths` the widths they run over.
    """

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


@dataclass(frozen=True)
class Avg(Instruction):
    """θ = (1/n) Σ_α x_α."""

    operand: Entry = field(kw_only=True)
    over: str = "n"


@dataclass(frozen=True)
class ScalarNonlin(Nonlin):
    """A function of scalars alone."""


def made_of(s: Instruction) -> Expr:
    """The body of a function, the operand of an image or of an average."""
    if isinstance(s, Nonlin):
        return s.body
    assert isinstance(s, (MatMul, Avg))
    return s.operand


def standing(s: Instruction, entry: Entry) -> Expr:
    """The same where an entry of it stands, on its axes and at its neuron."""
    return made_of(s).xreplace(place_of(entry, s.axes))


def through_names(
    instructions: Callable[[int], Instruction], body: Expr, opens: Callable[[Expr], Iterable[Entry]], most: int
) -> Expr:
    """A body with functions themselves where they were read by a name, as far as it has so many operations."""
    while swap := {e: standing(instructions(e.source), e) for e in opens(body)}:
        spread = body.xreplace(swap)
        if sympy.count_ops(spread) > most:
            break
        body = spread
    return body


def as_written(instructions: Callable[[int], Instruction], expr: Expr) -> str:
    """A part of a body as text, in names of the user: what derivations call `y argument` stands as its body."""
    unnamed = {}
    for entry in entries(expr):
        s = instructions(entry.source)
        if isinstance(s, OuterNonlin) and not s.name.isidentifier():
            unnamed[entry] = standing(s, entry)
    return with_names(expr.xreplace(unnamed), lambda entry: instructions(entry.source).name)


Kind = TypeVar("Kind", bound=Instruction)


def moved(s: Kind, place: Callable[[int], int]) -> Kind:
    """The instruction with what it reads at other positions; initial values read nothing.

    >>> from sympy import Integer
    >>> from tplimits.program.nodes.entries import OWN, Entry
    >>> moved(Avg("c", (), operand=Entry(Integer(1), OWN), over="n"), lambda position: position + 3).operand
    Entry(4, α)
    """
    s = s.changed(lambda expr: relocated(expr, place))
    return replace(s, matrix=place(s.matrix)) if isinstance(s, MatMul) else s


def ordered_slots(body: Expr, slots: tuple[Symbol, ...]) -> tuple[Expr, tuple[int, ...]]:
    """The body with its averaged indices renumbered so that the order of averaging does not matter."""
    if len(slots) > _SLOTS:
        return body, tuple(range(len(slots)))
    # averaging over β1 then β2 is averaging over β2 then β1: the least of all bodies stands for them
    orders = list(itertools.permutations(range(len(slots))))
    bodies = [body.xreplace({slots[old]: slots[new] for new, old in enumerate(order)}) for order in orders]
    first = min(range(len(orders)), key=lambda i: sympy.default_sort_key(bodies[i]))
    return bodies[first], orders[first]


def place_of(entry: Entry, axes: Iterable[str]) -> dict[Expr, Expr]:
    """What stands for the running indices of axes, and for its own neuron, where an entry stands."""
    at = [*zip(map(axis_symbol, axes), entry.indices, strict=True), (OWN, entry.neuron)]
    return {a: b for a, b in at if b not in (a, NO_NEURON)}
