"""What the author of a program states beside its instructions: lines of source, and constant arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy


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
