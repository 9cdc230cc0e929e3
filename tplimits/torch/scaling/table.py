"""The rows of a plan: what one parameter is, and the powers of n of all that a script sets for it.

Plain data: a plan that was saved is read without PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tplimits.errors import EvaluationError

#: what parameters are called, in the order that tables have
ROLES = ("embedding", "input weight", "hidden matrix", "bias or gain", "readout", "finite", "unused", "frozen")


@dataclass(frozen=True)
class Dimension:
    """A dimension of a tensor: ratio·n where it grows, and `size` where it does not."""

    ratio: Fraction = Fraction(0)
    size: int = 0

    def at(self, n: int) -> Fraction:
        return self.ratio * n + self.size

    def __str__(self) -> str:
        if not self.ratio:
            return str(self.size)
        top, bottom = self.ratio.as_integer_ratio()
        return ("" if top == 1 else str(top)) + "n" + ("" if bottom == 1 else f"/{bottom}")

    @classmethod
    def read(cls, text: str) -> Dimension:
        """The dimension that is written like this.

        >>> str(Dimension.read("3n/2")), Dimension.read("7").size
        ('3n/2', 7)
        """
        if "n" not in text:
            return cls(size=int(text))
        top, _, bottom = text.partition("n")
        return cls(Fraction(int(top or 1), int(bottom[1:] or 1)))


@dataclass(frozen=True)
class Deep:
    """The powers of the depth L of a row: as the model starts it, and as it should be."""

    started: Fraction = Fraction(0)
    initial: Fraction = Fraction(0)
    rate: Fraction = Fraction(0)
    eps: Fraction = Fraction(0)
    decay: Fraction = Fraction(0)
    gradient: Fraction = Fraction(0)
    #: of what its entries move by in training
    moved: Fraction = Fraction(0)


@dataclass(frozen=True)
class Size:
    """A model's width and depth in multiples of the base's."""

    width: float = 1.0
    depth: float = 1.0

    def to(self, n: Fraction, depth: Fraction) -> float:
        """width^n depth^L."""
        return self.width ** float(n) * self.depth ** float(depth)


@dataclass(frozen=True)
class Row:
    """One parameter, under all its names.

    started: the power of n of the standard deviation that the model starts it with, whose value at the base is `std`;
    None where it starts with numbers that are not random.  initial, rate, eps, decay: the powers that they should have.
    """

    names: tuple[str, ...]
    role: str
    optimizer: str
    shape: tuple[Dimension, ...]
    std: float | None
    started: Fraction | None
    initial: Fraction
    rate: Fraction
    eps: Fraction | None
    decay: Fraction
    #: how much smaller than late in training its first steps are, which are linear in sums that are centred at first
    early: Fraction = Fraction(0)
    #: the power of its gradient, late in training
    gradient: Fraction = Fraction(0)
    deep: Deep = Deep()

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def powers(self) -> tuple[Any, ...]:
        """What rows of a table have in common."""
        start = None if self.started is None and not self.deep.initial else (self.initial, self.deep.initial)
        eps = None if self.eps is None else (self.eps, self.deep.eps)
        return self.role, self.optimizer, start, (self.rate, self.deep.rate), eps, (self.decay, self.deep.decay)

    def rescaling(self, size: Size) -> float:
        """What the entries of make(n) are multiplied by; those that are not random by powers of the depth alone."""
        wide = Fraction(0) if self.started is None else self.initial - self.started
        return size.to(wide, self.deep.initial - self.deep.started)

    def shown_shape(self) -> str:
        return "×".join(map(str, self.shape)) or "1"


def width_of(found: Iterable[tuple[Row, str, tuple[int, ...]]]) -> int:
    """n of a model, from the shapes of its parameters; EvaluationError where no n fits all."""
    n: int | None = None
    by = ""
    for row, name, shape in found:
        if len(shape) != len(row.shape):
            raise _other(row, name, shape)
        for d, size in zip(row.shape, shape, strict=True):
            if d.ratio and n is None:
                n, by = round(size / d.ratio), name
            if n is not None and d.ratio and d.at(n) != size:
                raise _other(row, name, shape, f"; n = {n} by `{by}`")
            if not d.ratio and d.size != size:
                raise _other(row, name, shape)
    if n is None:
        raise EvaluationError("the model has no parameter that grows with n; is it what make(n) builds?")
    return n


def _other(row: Row, name: str, shape: tuple[int, ...], why: str = "") -> EvaluationError:
    return EvaluationError(
        f"`{name}` has the shape {'×'.join(map(str, shape))}, in the plan {row.shown_shape()}{why}: the model is not "
        "what make(n) builds."
    )


def power(p: Fraction | None, n: str = "n") -> str:
    """A power of n in a table.

    >>> power(Fraction(-1, 2)), power(Fraction(0)), power(None)
    ('n^(-1/2)', '1', '—')
    """
    if p is None:
        return "—"
    return "1" if p == 0 else n if p == 1 else f"{n}^{p}" if p.denominator == 1 and p > 0 else f"{n}^({p})"


def powers(pair: tuple[Fraction, Fraction] | None) -> str:
    """A product of powers of n and of the depth L.

    >>> powers((Fraction(-1), Fraction(1, 2))), powers((Fraction(0), Fraction(0)))
    ('n^(-1) L^(1/2)', '1')
    """
    if pair is None:
        return "—"
    shown = [power(p, n) for p, n in zip(pair, "nL", strict=True) if p]
    return " ".join(shown) or "1"


def table(rows: Iterable[Row]) -> list[str]:
    """The rows with the same powers in one line each."""
    many: dict[tuple[Any, ...], list[str]] = {}
    for row in sorted(rows, key=lambda r: (ROLES.index(r.role), r.optimizer)):
        if row.role != "frozen":
            many.setdefault(row.powers, []).append(row.name)
    lines = [("role", "optimizer", "std ×", "rate ×", "ε ×", "decay ×", "parameters")]
    lines += [(key[0], key[1], *map(powers, key[2:]), shortened(names)) for key, names in many.items()]
    widths = [max(len(line[i]) for line in lines) for i in range(6)]
    return ["  ".join([*(c.ljust(w) for c, w in zip(line, widths, strict=False)), line[6]]) for line in lines]


def shortened(names: list[str], most: int = 3) -> str:
    """The first names, and how many there are."""
    return ", ".join(names[:most]) + (f", … ({len(names)})" if len(names) > most else "")
