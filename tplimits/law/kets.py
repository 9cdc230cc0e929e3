"""Kets (Yang & Littwin, Def. 2.6.5) and the steps by which they were found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sympy import Expr, S, Symbol

from tplimits.program.parts import remembered

if TYPE_CHECKING:
    from tplimits.program.nodes.entries import Entry

#: (position of the instruction, index along its finite axes)
Key = tuple[int, tuple[int, ...]]


@remembered(1 << 14)
def key_of(entry: Entry) -> Key:
    """The instruction and the index an entry reads."""
    return entry.source, tuple(int(i) for i in entry.indices)


@dataclass(frozen=True)
class DotTerm:
    """One term |y⟩ · E[∂|x⟩/∂|Wᵀy⟩^] of the dot part of |W x⟩.

    `factor` is the ratio of widths that stands before it (1 between equal widths) and is part of
    `coefficient`; `form` says how the coefficient is evaluated: "derivative" or "Stein".
    """

    partner: str
    partner_ket: Expr
    hat: Symbol
    operand: str
    coefficient: Expr
    derivative: Expr
    factor: Expr = S.One
    form: str = "derivative"


@dataclass(frozen=True)
class Ket:
    """The random variable that the entries of a vector look like.

    `expr` is a function of Gaussian variables; for an image W x it is the hat part plus the dot
    terms, which are kept apart in `hat` and `dot`.
    """

    label: str
    expr: Expr
    hat: Expr | None = None
    dot: tuple[DotTerm, ...] = ()
    width: str = "n"

    @property
    def dot_expr(self) -> Expr:
        """The dot part; zero when there is none."""
        return sum((t.coefficient * t.partner_ket for t in self.dot), S.Zero)


@dataclass(frozen=True)
class Reference:
    """Where a rule is proved: a place in the literature and the BibTeX key behind it."""

    text: str
    citation: str


MASTER = "Yang & Littwin 2023, Tensor Programs IVb"


@dataclass(frozen=True, repr=False)
class Step:
    """One step of a derivation: by `rule`, from `premises`, to `conclusion`, with remarks.

    The texts are written when they are read: printing a long derivation costs more than making it.
    """

    rule: str
    named: tuple[str, ...] | Callable[[], Iterable[str]]
    write: Callable[[], str]
    reference: Reference
    write_remarks: Callable[[], Sequence[str]] = tuple

    def __repr__(self) -> str:
        return f"Step(rule={self.rule!r}, premises={self.premises!r}, reference={self.reference!r})"

    @property
    def premises(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.named() if callable(self.named) else self.named))

    @property
    def conclusion(self) -> str:
        return self.write()

    @property
    def remarks(self) -> tuple[str, ...]:
        return tuple(self.write_remarks())

    def __str__(self) -> str:
        premises = f" from {', '.join(self.premises)}" if self.premises else ""
        remarks = "".join(f"\n      {r}" for r in self.remarks)
        return f"{self.conclusion}\n      [{self.rule}{premises}; {self.reference.text}]{remarks}"
