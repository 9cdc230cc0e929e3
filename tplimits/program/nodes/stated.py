"""What the author of a program states beside its instructions: lines of source, and constant arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy

#: constant arrays with more entries are described
_SHOWN = 64


def rounded(values: numpy.ndarray) -> numpy.ndarray:
    """Entries for people: to four digits behind the point, and never to fewer than four in all.

    >>> rounded(numpy.array([0.123456, -2e-5, 12.345678, 0.0])).tolist()
    [0.1235, -2e-05, 12.3457, 0.0]
    """
    if values.dtype.kind != "f":
        return values
    size = numpy.floor(numpy.log10(numpy.abs(numpy.where(values, values, 1.0))))
    digits = numpy.maximum(4, 3 - size).astype(int)
    each = zip(values.ravel().tolist(), digits.ravel().tolist(), strict=True)
    return numpy.array([round(v + 0.0, d) for v, d in each]).reshape(values.shape)


def contents(values: numpy.ndarray) -> str:
    """What a constant array holds, for a line of text.

    >>> contents(numpy.eye(2)), contents(numpy.arange(100.0))
    ('[[1.0, 0.0], [0.0, 1.0]]', 'of shape (100,), entries from 0 to 99')
    """
    if values.size > _SHOWN:
        return f"of shape {values.shape}, entries from {values.min():.4g} to {values.max():.4g}"
    return str(rounded(values).tolist())


@dataclass(frozen=True)
class Line:
    """The place in the user's source an instruction comes from."""

    file: str = ""
    number: int = 0
    text: str = ""

    def __str__(self) -> str:
        if not self.number:
            return "no source line"
        where = f"{self.file}, line {self.number}" if self.file else f"line {self.number}"
        return f"{where}: `{self.text}`" if self.text else where


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

    @cached_property
    def smallest(self) -> float:
        """Its smallest entry."""
        return float(self.values.min())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexTable) or self.axes != other.axes or self.values.dtype != other.values.dtype:
            return False
        return numpy.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.axes, self.values.shape, (self.values + 0).tobytes()))  # + 0: −0.0 equals 0.0
